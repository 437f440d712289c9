"""ResNet-8 as a netlist: every logit of simulated images beside the reference's, logic from Yosys, clocks per image.

    python -m benchmarks.fpga --data FOLDER [--model FILE] [--images 1000] [--cycles 21000] [--no-synthesis]

FOLDER holds cifar10/test.npz (docs/test-data.md). Without --model the network is ResNet-8 with random power-of-two
weights of 5 bits, and a shift and table per channel. Half of the images stream at full speed, the other half with
random pauses of the writer and the reader, a quarter of the clocks each. Synthesis counts only: nothing is placed or
routed. Writes results/fpga.{json,md}; exits with 1 at any wrong logit.
"""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.fpga.generate.foldings import choose_foldings
from edgemeta.kernels.fpga.generate.network import Network
from edgemeta.kernels.fpga.report import fpga_report
from edgemeta.kernels.fpga.simulate.cache import simulation_library
from edgemeta.kernels.fpga.simulate.model import Simulation
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from tests.conformance.power_of_two import random_resnet8
from tests.plugins.cuda.proofs import first_images

STALL = 64
"""Of 256, how often each side pauses for a clock."""
PART = 50


def main() -> None:
    """Simulate, synthesize, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--cycles", type=int, default=21_000)
    parser.add_argument("--no-synthesis", action="store_true")
    options = parser.parse_args()
    model = load(options.model) if options.model else random_resnet8()
    if options.model is None:
        model = replace(model, preprocessing=load(find("resnet8-cifar10")).preprocessing)
    network = choose_foldings(model, options.cycles)
    values: dict[str, Any] = {"model": model.name, **simulate(network, options.data, options.images)}
    lines = [
        f"{model.name}: {values['images']} images, {values['mismatches']} of {values['logits']} logits differ from the "
        f"reference's; {values['interval']} clocks from image to image at full speed."
    ]
    if not options.no_synthesis:
        report = fpga_report(network)
        values |= report.as_json()
        lines += ["", "```", *report.lines(30.0), "```"]
    print("\n".join(lines))
    command = f"python -m benchmarks.fpga --data FOLDER --images {options.images} --cycles {options.cycles}"
    write_json("fpga", command, values)
    write_markdown("fpga", command, "\n".join(lines))
    sys.exit(values["mismatches"] > 0)


def simulate(network: Network, data: Path, count: int) -> dict[str, Any]:
    """Mismatches of `count` images, and the clocks from image to image."""
    images = first_images(network.model, data, count)
    simulation = Simulation(network, simulation_library(network))
    wrong = logits = interval = 0
    begin = time.perf_counter()
    for start in range(0, count, PART):
        part = images[start : start + PART]
        paused = start >= count // 2
        found, clocks = simulation.timed(part, STALL if paused else 0, seed=start + 1)
        wrong += int((found != reference.run(network.model, part)[0]).sum())
        logits += found.size
        if not paused and len(part) > 1:
            interval = max(interval, int(np.diff(clocks.astype(np.int64))[1:].max(initial=0)))
        print(
            f"{start + len(part)} images, {wrong} wrong, {time.perf_counter() - begin:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    simulation.close()
    return {"images": count, "logits": logits, "mismatches": wrong, "interval": interval}


if __name__ == "__main__":
    main()
