"""ResNet-20 with weights and feature maps of 2 bits, by popcount and otherwise, beside int8: counted and timed.

    python benchmarks/popcount_networks.py [--runs 300] [--no-arm]

Three networks of ResNet-20's topology (CIFAR-10's form) with random weights, the first and last layer int8 in each:
int8 weights and maps; 2-bit weights and maps; 2 binary bases with factors that make 7- and 8-bit weights, and 2-bit
maps. `fastest` is what the planner takes, `planes` is popcount wherever it can run. x86: microseconds of an image, the
least of so many runs, one thread, which other work on the machine disturbs little. ARM: instructions of an image on
emulated processors, the same in every run; they are no times. Writes results/popcount-networks.json and .md.
"""

import argparse
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from ctypes import c_void_p
from functools import partial

import numpy as np

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cpu.library import FORMS, supported_isas
from edgemeta.kernels.cpu.program import Program
from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType
from edgemeta.model.weights import Weights
from edgemeta.plugins.measure import random_image
from rig.arm.instructions import instructions_per_image
from rig.arm.machines import MACHINES
from tests.conformance.networks import NetworkBuilder

Made = Callable[[tuple[int, ...]], Weights]


def resnet20(name: str, bits: int, weights: Callable[[NetworkBuilder], Made]) -> Model:
    """Feature maps of so many bits; weights: of all layers but the first and the last."""
    kind = TensorType((1, 1, 1), bits, signed=False, scale=0.05)
    net = NetworkBuilder(name, TensorType((32, 32, 3), scale=0.05))
    made = weights(net)
    x = net.conv(net.start, 16, output=kind)
    for channels in (16, 32, 64):
        for block in range(3):
            step = (2, 2) if block == 0 and channels > 16 else (1, 1)
            hidden = net.conv(x, channels, stride=step, weights=made, output=kind)
            branch = net.conv(hidden, channels, weights=made, output=kind)
            is_wider = net.type_of(x).shape[2] != channels
            if is_wider:
                x = net.conv(x, channels, (1, 1), step, (0, 0, 0, 0), weights=made, output=kind)
            x = net.add(branch, x, multipliers=(1, 1), shift=1, relu=True)
    net.dense(net.average(x, (8, 8)), 10)
    return net.finish().model


NETWORKS: dict[str, Callable[[], Model]] = {
    "int8": lambda: resnet20("int8", 8, lambda net: net.fixed),
    "2 x 2 bits": lambda: resnet20("two-bits", 2, lambda net: partial(net.fixed, bits=2)),
    "2 bases x 2 bits": lambda: resnet20("two-bases", 2, lambda net: partial(net.binary, bases=2, reach=63)),
}
FORMS_OF = {"int8": ("fastest",), "2 x 2 bits": ("fastest", "planes"), "2 bases x 2 bits": ("fastest", "planes")}


def least_time(model: Model, isa: str, form: str, runs: int) -> tuple[float, Counter[str]]:
    """Microseconds of an image, the least of so many runs, and how many convolutions take each form."""
    image = random_image(model)
    outputs = [np.empty((1, *kind.shape), kind.dtype) for kind in model.output_types]
    addresses = (c_void_p * len(outputs))(*(output.ctypes.data for output in outputs))
    with closing(Program(model, isa, 1, form)) as program:
        taken = Counter(each.description.split(":")[0] for each in program.forms().values())
        times = []
        for _ in range(runs):
            begin = time.perf_counter_ns()
            program.run(1, image.ctypes.data, addresses)
            times.append(time.perf_counter_ns() - begin)
    return min(times) / 1000, taken


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=300)
    parser.add_argument("--no-arm", action="store_true", help="without the emulated processors")
    chosen = parser.parse_args()
    models = {name: make() for name, make in NETWORKS.items()}
    rows: list[dict[str, object]] = []
    for name, model in models.items():
        for form in FORMS_OF[name]:
            assert form in FORMS
            for isa in supported_isas():
                microseconds, taken = least_time(model, isa, form, chosen.runs)
                forms = ", ".join(f"{count} {each}" for each, count in sorted(taken.items()))
                rows.append(
                    {"network": name, "form": form, "on": isa, "cost": round(microseconds, 1), "unit": "us"}
                    | {"forms": forms}
                )
            for machine in () if chosen.no_arm else MACHINES:
                count = round(instructions_per_image(machine, model, form))
                where = f"{machine.processor} ({machine.isa})"
                rows.append(
                    {"network": name, "form": form, "on": where, "cost": count, "unit": "instructions"} | {"forms": ""}
                )
            print(*rows[-1].values(), flush=True)
    int8 = {row["on"]: float(str(row["cost"])) for row in rows if row["network"] == "int8"}
    lines = ["| network | form | on | cost | unit | of int8 | convolutions |", "|---|---|---|---:|---|---:|---|"]
    for row in rows:
        row["of_int8"] = round(float(str(row["cost"])) / int8[row["on"]], 3)
        cells = row["network"], row["form"], row["on"], f"{row['cost']:,}", row["unit"], row["of_int8"], row["forms"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    table = "\n".join(lines)
    print(table)
    command = f"python benchmarks/popcount_networks.py --runs {chosen.runs}{' --no-arm' if chosen.no_arm else ''}"
    write_json("popcount-networks", command, {"rows": rows})
    write_markdown("popcount-networks", command, table)


if __name__ == "__main__":
    main()
