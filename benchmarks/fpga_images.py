"""Test images through the simulated netlist of a network, half of them with back-pressure, beside the reference.

    python -m benchmarks.fpga_images --data FOLDER [MODEL] [--images 1000] [--cycles 21000]

FOLDER holds cifar10/test.npz (docs/test-data.md). MODEL: a file or a shipped name, resnet8-cifar10-pot5 by default. The
first half of the images streams at full speed, the other half with random pauses of the writer and the reader, a
quarter of the clocks each. Writes results/fpga-images.{json,md}; exits with 1 at any wrong logit.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.fpga.generate.foldings import DEFAULT_CYCLES, choose_foldings
from edgemeta.kernels.fpga.generate.network import Network
from edgemeta.kernels.fpga.simulate.cache import simulation_library
from edgemeta.kernels.fpga.simulate.model import Simulation
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.zoo import find
from tests.plugins.cuda.proofs import first_images

STALL = 64
"""Of 256, how often each side pauses for a clock."""
PART = 50


def main() -> None:
    """Simulate, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("model", nargs="?", metavar="MODEL", default="resnet8-cifar10-pot5")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--cycles", type=int, default=DEFAULT_CYCLES)
    options = parser.parse_args()
    model = load(find(options.model))
    values = simulate(choose_foldings(model, options.cycles), options.data, options.images)
    line = (
        f"{model.name}: {values['images']} images, {values['paused']} of them with pauses; {values['mismatches']} of "
        f"{values['logits']} logits differ from the reference's; {values['interval']} clocks from image to image at "
        "full speed."
    )
    print(line)
    command = f"python -m benchmarks.fpga_images --data FOLDER {model.name} --images {options.images}"
    write_json("fpga-images", command, {"model": model.name, "sha256": model.digest, **values})
    write_markdown("fpga-images", command, f"{line} sha256 `{model.digest[:12]}`.")
    sys.exit(values["mismatches"] > 0)


def simulate(network: Network, data: Path, count: int) -> dict[str, int]:
    """Mismatches of `count` images, and the clocks from image to image."""
    images = first_images(network.model, data, count)
    simulation = Simulation(network, simulation_library(network))
    wrong = logits = interval = stalled = 0
    begin = time.perf_counter()
    for start in range(0, count, PART):
        part = images[start : start + PART]
        paused = start >= count // 2
        found, clocks = simulation.timed(part, STALL if paused else 0, seed=start + 1)
        wrong += int((found != reference.run(network.model, part)[0]).sum())
        logits += found.size
        stalled += paused * len(part)
        if not paused and len(part) > 1:
            interval = max(interval, int(np.diff(clocks.astype(np.int64))[1:].max(initial=0)))
        print(
            f"{start + len(part)} images, {wrong} wrong, {time.perf_counter() - begin:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    simulation.close()
    return {
        "images": count,
        "paused": stalled,
        "logits": logits,
        "mismatches": wrong,
        "interval": interval,
    }


if __name__ == "__main__":
    main()
