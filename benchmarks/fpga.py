"""ResNet-8 as a netlist: logic from Yosys, clocks per image from a simulation.

    python -m benchmarks.fpga [--model FILE] [--cycles 21000] [--flatten]

Without --model the network is ResNet-8 with random power-of-two weights of 5 bits, and a shift and table per channel.
--flatten also synthesizes everything in one piece, which takes very long. Synthesis counts only: nothing is placed or
routed. Writes results/fpga.{json,md}.
"""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.fpga.generate.foldings import DEFAULT_CYCLES, choose_foldings
from edgemeta.kernels.fpga.report import fpga_report
from edgemeta.kernels.fpga.synthesize.yosys import flattened_cells
from edgemeta.model.file import load
from tests.conformance.power_of_two import random_resnet8


def main() -> None:
    """Synthesize, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--cycles", type=int, default=DEFAULT_CYCLES)
    parser.add_argument("--flatten", action="store_true")
    options = parser.parse_args()
    network = choose_foldings(load(options.model) if options.model else random_resnet8(), options.cycles)
    report = fpga_report(network)
    values: dict[str, Any] = report.as_json()
    lines = ["```", *report.lines(30.0), "```"]
    if options.flatten:
        whole = flattened_cells(network)
        values["flattened"] = asdict(whole)
        lines.append(
            f"\nIn one piece: {whole.lut} LUTs, {whole.ff} flip-flops, {whole.dsp} DSP, {whole.bram36:g} BRAM36."
        )
    print("\n".join(lines))
    file = f" --model {options.model.name}" if options.model else ""
    command = f"python -m benchmarks.fpga{file} --cycles {options.cycles}{' --flatten' if options.flatten else ''}"
    write_json("fpga", command, values)
    write_markdown("fpga", command, "\n".join(lines))


if __name__ == "__main__":
    main()
