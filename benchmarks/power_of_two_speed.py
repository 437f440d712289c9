"""Networks with 5-bit powers of two as weights beside int8 ones of the same shapes, on the cpu backend.

    python benchmarks/power_of_two_speed.py [--rounds 300] [--networks resnet8 ...] [--isas avx2 ...] [--out FOLDER]

Each network exists three times, made from one float network and the same random pictures: `powers`, its weights the
nearest powers of two, as scheme `incremental` makes an integer network (requantization by shift and table); `tables`,
int8 with the same kind of requantization; `int8`, as scheme `auto` makes it (by multiplier). `resnet8-trained` has the
weights of the shipped float network, the others normally distributed ones (topologies.py).

The three take turns, one image each, on one thread; the time is the least of all rounds, so that other work on the
machine disturbs little. All outputs of random and extreme images are compared with the reference's first. Writes
power-of-two-speed.json and .md, with the instruction sets in the name where they are given, by default into
benchmarks/results; fails if an integer differs.
"""

import argparse
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from ctypes import c_void_p
from pathlib import Path

import numpy as np
import torch

from benchmarks.result_file import RESULTS, write_json, write_markdown
from benchmarks.topologies import write_topology
from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.kernels.cpu.program import Program
from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.plugins.measure import random_image
from edgemeta.toolchain.data.frames import ArrayFrames
from edgemeta.toolchain.float_model.file import load_float_model
from edgemeta.toolchain.float_model.graph import Conv, Dense, FloatModel
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.incremental.projection import Projection
from edgemeta.toolchain.quantize.auto import Prepared
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibrate import Statistics
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.choices import Choice, Form
from edgemeta.toolchain.quantize.events import Events
from edgemeta.toolchain.quantize.multiplier_free import multiplier_free

TRAINED = "resnet8-trained"
NETWORKS = {"resnet8": 32, "resnet20": 32, "vgg16_cifar": 32, "mobilenet_v2": 32}
"""Topologies, and the side of their images."""
BITS = 5
PICTURES = 16


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [TRAINED, *NETWORKS]
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--networks", nargs="+", choices=names, default=names)
    parser.add_argument("--isas", nargs="+", choices=supported_isas(), help="default: all that the processor has")
    parser.add_argument("--out", type=Path, default=RESULTS)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    rows: list[dict[str, object]] = []
    for name in chosen.networks:
        models = forms_of(float_network(name))
        for isa in chosen.isas or supported_isas():
            rows.append({"network": name, "isa": isa, **measured(models, isa, chosen.rounds)})
            print(*rows[-1].values(), flush=True)
    table = "\n".join(lines(rows))
    print(table)
    rest = "" if chosen.networks == names else f" --networks {' '.join(chosen.networks)}"
    rest += f" --isas {' '.join(chosen.isas)}" if chosen.isas else ""
    result = "-".join(["power-of-two-speed", *(chosen.isas or ())])
    command = f"python benchmarks/power_of_two_speed.py --rounds {chosen.rounds}{rest}"
    write_json(result, command, {"bits": BITS, "rows": rows}, chosen.out)
    write_markdown(result, command, table, chosen.out)
    if any(row["mismatches"] for row in rows):
        raise SystemExit("integers differ from the reference")


def float_network(name: str) -> FloatModel:
    """A float network, shipped or with random weights."""
    if name == TRAINED:
        return load_float_model(find("resnet8-cifar10-float"))
    with tempfile.TemporaryDirectory() as folder:
        file = write_topology(name, Path(folder), NETWORKS[name], classes=10)
        model = import_network(file, Path(folder) / "float.safetensors", Pixels()).model
    assert isinstance(model, FloatModel)
    return model


def forms_of(model: FloatModel) -> dict[str, Model]:
    """The integer networks to compare, by name."""
    pixels = np.random.default_rng(0).integers(0, 256, (PICTURES, *model.input_shape[:2], 3)).astype(np.uint8)
    images = PreparedImages(model, ArrayFrames(pixels))
    stored = {}
    for layer in model.layers:
        if isinstance(layer, Conv | Dense):
            values = torch.from_numpy(layer.weight.copy())
            projection = Projection(values, BITS, "mse")
            stored[layer.name] = projection.stored(projection(values).numpy())
    prepared = Prepared(model, images, Events())

    def int8(form: Form) -> Model:
        return prepared.builder(Choice("minmax", form)).build()

    powers = multiplier_free(model, stored, Statistics(model, blocks_of(model), images))
    return {"powers": powers, "tables": int8("table"), "int8": int8("multiplier")}


def measured(models: Mapping[str, Model], isa: str, rounds: int) -> dict[str, object]:
    """Least microseconds of each network, ratios, the forms of the convolutions with powers of two, mismatches."""
    with ExitStack() as stack:
        programs = {name: stack.enter_context(closing(Program(model, isa, 1))) for name, model in models.items()}
        calls = {name: call_of(programs[name], models[name]) for name in models}
        wrong = sum(mismatches(programs[name], models[name]) for name in models)
        least = dict.fromkeys(models, float("inf"))
        for _ in range(rounds):
            for name, call in calls.items():
                call()  # brings its weights back into the caches
                begin = time.perf_counter_ns()
                call()
                least[name] = min(least[name], (time.perf_counter_ns() - begin) / 1000)
        taken = Counter(each.name for each in programs["powers"].forms().values())
    return {
        **{f"{name}_us": round(microseconds, 1) for name, microseconds in least.items()},
        "of_int8": round(least["powers"] / least["int8"], 3),
        "of_tables": round(least["powers"] / least["tables"], 3),
        "forms": ", ".join(f"{count} {form}" for form, count in sorted(taken.items())),
        "mismatches": wrong,
    }


def call_of(program: Program, model: Model) -> Callable[[], None]:
    """Runs one image into arrays of its own."""
    image = random_image(model)
    outputs = [np.empty((1, *kind.shape), kind.dtype) for kind in model.output_types]
    addresses = (c_void_p * len(outputs))(*(output.ctypes.data for output in outputs))

    def call() -> None:
        program.run(1, image.ctypes.data, addresses)

    call.arrays = outputs  # type: ignore[attr-defined]  # alive as long as the function that writes them
    return call


def mismatches(program: Program, model: Model) -> int:
    """Integers that differ from the reference's: of a random image, the least, the greatest and both in turn."""
    kind, wrong = model.input, 0
    turns = np.where(np.indices(kind.shape).sum(0) % 2 == 0, kind.lo, kind.hi)
    for image in (random_image(model)[0], np.full(kind.shape, kind.lo), np.full(kind.shape, kind.hi), turns):
        batch = np.ascontiguousarray(image[np.newaxis].astype(kind.dtype))
        expected = reference.run(model, batch)
        found = [np.zeros_like(each) for each in expected]
        program.run(1, batch.ctypes.data, (c_void_p * len(found))(*(each.ctypes.data for each in found)))
        wrong += sum(int(np.count_nonzero(one != other)) for one, other in zip(found, expected, strict=True))
    return wrong


def lines(rows: list[dict[str, object]]) -> Iterator[str]:
    """A Markdown table."""
    keys = list(rows[0])
    yield f"| {' | '.join(keys)} |"
    yield "|---" * 2 + "|---:" * 5 + "|---|---:|"
    for row in rows:
        yield f"| {' | '.join(str(row[key]) for key in keys)} |"


if __name__ == "__main__":
    main()
