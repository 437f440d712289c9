"""A network as a netlist: logic from Yosys, clocks per image from a simulation.

    python -m benchmarks.fpga [MODEL] [--cycles 21000] [--flatten]

MODEL: a file or a shipped name, resnet8-cifar10-pot5 by default. --flatten also synthesizes everything in one piece,
which takes very long. Synthesis counts only: nothing is placed or routed. Writes results/fpga.{json,md}.
"""

import argparse
from dataclasses import asdict
from typing import Any

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.fpga.generate.foldings import DEFAULT_CYCLES, choose_foldings
from edgemeta.kernels.fpga.report import fpga_report
from edgemeta.kernels.fpga.synthesize.yosys import flattened_cells
from edgemeta.model.file import load
from edgemeta.model.zoo import find


def main() -> None:
    """Synthesize, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", metavar="MODEL", default="resnet8-cifar10-pot5")
    parser.add_argument("--cycles", type=int, default=DEFAULT_CYCLES)
    parser.add_argument("--flatten", action="store_true")
    options = parser.parse_args()
    model = load(find(options.model))
    network = choose_foldings(model, options.cycles)
    report = fpga_report(network)
    values: dict[str, Any] = {"model": model.name, "sha256": model.digest, **report.as_json()}
    lines = ["```", *report.lines(30.0), "```"]
    if options.flatten:
        whole = flattened_cells(network)
        values["flattened"] = asdict(whole)
        lines.append(
            f"\nIn one piece: {whole.lut} LUTs, {whole.ff} flip-flops, {whole.dsp} DSP, {whole.bram36:g} BRAM36."
        )
    print("\n".join(lines))
    command = f"python -m benchmarks.fpga {model.name} --cycles {options.cycles}{' --flatten' * options.flatten}"
    write_json("fpga", command, values)
    write_markdown("fpga", command, f"sha256 `{model.digest[:12]}`\n\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
