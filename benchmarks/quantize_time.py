"""Time of `edgemeta quantize` for the network that `edgemeta train --data` makes by default, on one core.

    python benchmarks/quantize_time.py --calibrate clothing/train

The weights are random: the time does not depend on them. BLAS gets one thread. Prints the seconds of each stage and the
digest of the model file, which tells whether two versions make the same integers, and writes
results/quantize-time.json.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import torch

from benchmarks.result_file import write_json
from edgemeta.toolchain.float_model.file import save_float_model
from edgemeta.toolchain.quantize.auto import AutoScheme
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.events import Events, StageName
from edgemeta.toolchain.quantize.quantize import quantize
from edgemeta.toolchain.train.designs import RESNET
from edgemeta.toolchain.train.export import export_network
from edgemeta.toolchain.train.networks import build

LABELS = tuple(f"class {i}" for i in range(RESNET.classes))


def main() -> None:
    """Make the network, quantize it, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calibrate", type=Path, required=True, help="folder of pictures, as for `edgemeta quantize`")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "float.safetensors"
        _save_random(path)
        clock = _Clock()
        begin = time.process_time()
        result = quantize(
            path, Path(folder) / "model.safetensors", AutoScheme(Calibration(chosen.calibrate)), events=clock
        )
        seconds = time.process_time() - begin
        clock.end()
    for stage, spent in clock.seconds.items():
        print(f"{spent:7.1f} s  {stage}")
    print(f"{seconds:7.1f} s of CPU, {result.seconds:.1f} s elapsed, {result.made.images} images, {result.sha256}")
    values = {
        "network": RESNET.name,
        "size": RESNET.size,
        "images": result.made.images,
        "cpu_seconds": round(seconds, 1),
        "elapsed_seconds": round(result.seconds, 1),
        "stages": {stage: round(spent, 1) for stage, spent in clock.seconds.items()},
        "sha256": result.sha256,
    }
    place = "/".join(chosen.calibrate.parts[-2:])
    write_json("quantize-time", f"python benchmarks/quantize_time.py --calibrate {place}", values)


class _Clock(Events):
    """CPU seconds of each stage, all its occurrences together."""

    def __init__(self) -> None:
        self.seconds: dict[StageName, float] = {}
        self._last: tuple[StageName, float] | None = None

    def begin(self, stage: StageName, detail: str = "") -> None:
        """A stage begins, and so the last one ends."""
        self.end()
        self._last = stage, time.process_time()

    def end(self) -> None:
        """The last stage ends."""
        if self._last is not None:
            stage, since = self._last
            self.seconds[stage] = self.seconds.get(stage, 0.0) + time.process_time() - since


def _save_random(path: Path) -> None:
    """The float network with random weights and the batch norms of random images."""
    torch.manual_seed(0)
    network = build(RESNET).train()
    with torch.no_grad():
        for _ in range(10):
            network(torch.randn(16, 3, RESNET.size, RESNET.size))
    save_float_model(export_network(network.eval(), "quantize-time", LABELS, {}), path)


if __name__ == "__main__":
    main()
