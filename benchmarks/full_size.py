"""What scheme `binary` costs on AlexNet and YOLOv3-tiny of full size: bytes, bit operations, decomposition, time.

    python benchmarks/full_size.py [--networks alexnet yolo_v3_tiny] [--pairs 2,2 4,4 6,6 8,8] [--runs 10]

The networks have the published topologies and random weights (topologies.py), so there is no accuracy: what is shown is
what a choice of bases B and feature bits Q costs. Wb/Wf and qb/qf are those of the search's objective. Time: the least
of so many images on the fastest instruction set, one thread, in the form that the planner takes, beside int8 weights
and 8-bit maps everywhere. Prints a table and writes results/full-size.json and .md.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.popcount_networks import least_time
from benchmarks.result_file import write_json, write_markdown
from benchmarks.topologies import write_topology
from edgemeta.kernels.cpu.library import best_isa
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.quantize.bit_network import BitNetwork
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.weight_schemes import Fixed, WeightScheme, weight_scheme
from edgemeta.toolchain.search.objective import Costs

COLUMNS = {
    "network": "network",
    "bits": "weights, maps",
    "weights": "weights, MB",
    "weight_share": "Wb/Wf",
    "feature_share": "qb/qf",
    "bit_operations": "bit operations, G",
    "seconds": "made in s",
    "ms": "image, ms",
    "of_int8": "of int8",
    "forms": "convolutions and dense layers",
}
SETTINGS = {"yolo_v3_tiny": TaskSettings(anchors=(((10, 14), (23, 27), (37, 58)), ((81, 82), (135, 169), (344, 319))))}
"""What the files do not say: the anchors of YOLOv3-tiny."""
_CALIBRATION = 2


def main() -> None:
    """Make, measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=["alexnet", "yolo_v3_tiny"], help="names of topologies.py")
    parser.add_argument("--pairs", nargs="+", default=["2,2", "4,4", "6,6", "8,8"], metavar="B,Q")
    parser.add_argument("--runs", type=int, default=10)
    chosen = parser.parse_args()
    pairs = [(int(bases), int(bits)) for bases, bits in (pair.split(",") for pair in chosen.pairs)]
    rows = [row for name in chosen.networks for row in measured(name, pairs, chosen.runs)]
    lines = ["| " + " | ".join(COLUMNS.values()) + " |", "|---|---|" + "---:|" * 7 + "---|"]
    lines += ["| " + " | ".join(str(row[key]) for key in COLUMNS) + " |" for row in rows]
    table = "\n".join(lines)
    print(table)
    command = (
        f"python benchmarks/full_size.py --networks {' '.join(chosen.networks)} --pairs {' '.join(chosen.pairs)} "
        f"--runs {chosen.runs}"
    )
    write_json("full-size", command, {"isa": best_isa(), "rows": rows})
    write_markdown("full-size", command, f"Random weights, instruction set {best_isa()}, one thread.\n\n{table}")


def measured(name: str, pairs: list[tuple[int, int]], runs: int) -> list[dict[str, Any]]:
    """A row for int8 everywhere and one for each pair."""
    network = of_full_size(name)
    plain = row_of(name, network, Fixed(), (8, 8), runs)
    rows = [plain, *(row_of(name, network, weight_scheme("binary"), pair, runs) for pair in pairs)]
    return [row | {"of_int8": round(row["ms"] / plain["ms"], 2)} for row in rows]


def of_full_size(name: str) -> BitNetwork:
    """The float network of a topology, calibrated by noise."""
    with tempfile.TemporaryDirectory() as folder:
        file = write_topology(name, Path(folder))
        model = import_network(file, Path(folder) / "float.safetensors", Pixels(), SETTINGS.get(name)).model
    assert isinstance(model, FloatModel)
    noise = np.random.default_rng(1).integers(0, 256, (_CALIBRATION, *model.input_shape), np.uint8)
    return BitNetwork(model, PreparedImages(model, ArrayFrames(noise)), Fixed(), Events())


def row_of(name: str, network: BitNetwork, scheme: WeightScheme, pair: tuple[int, int], runs: int) -> dict[str, Any]:
    """One choice, the same numbers everywhere."""
    under = network.with_scheme(scheme)
    bits = under.uniform(*pair)
    begin = time.monotonic()
    model = under.build(bits)
    seconds = time.monotonic() - begin
    sizes = Costs(under).of(bits)
    microseconds, taken = least_time(model, best_isa(), "fastest", runs)
    unit = "bases" if scheme.name == "binary" else "bits"
    row = {
        "network": name,
        "bits": f"{pair[0]} {unit}, {pair[1]} bits",
        "weights": round(sizes.bytes / 1e6, 2),
        "weight_share": round(sizes.weights, 4),
        "feature_share": round(sizes.features, 4),
        "bit_operations": round(sizes.bit_operations / 1e9, 1),
        "seconds": round(seconds, 1),
        "ms": round(microseconds / 1000, 2),
        "forms": ", ".join(f"{count} {form}" for form, count in sorted(taken.items())),
    }
    print(*row.values(), flush=True)
    return row


if __name__ == "__main__":
    main()
