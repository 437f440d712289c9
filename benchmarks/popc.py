"""Predicted gain or loss of popcount over bit planes on CUDA (kernels/cuda/popc), by widths of weights and activations.

    python benchmarks/popc.py [--arch sm_87]

Convolutions of ResNet-8 and three larger ones, on their own, without what is fused with them. W1: weights of -1 and 1.
W2: of two bits. B: bases of -1 and 1 with integer factors, which as integers need 8 bits. A: bits of the unsigned
activations. Each layer is run by the popcount kernel and by the kernel that is chosen without it, both with the tile
that is chosen by rule, on tensor cores with the fastest of all tiles, too. Times are predicted by simulating machine
code, not measured. `pairs` is the number of pairs of planes, `by rule` what the planner takes. Writes
results/popc-ARCH.json and .md.
"""

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from benchmarks.result_file import write_json, write_markdown
from benchmarks.sub_byte import counted, layout_of, of_bits
from edgemeta.kernels.cuda.compile.compiler import Compiler, wheel_compiler
from edgemeta.kernels.cuda.lowering import KERNELS
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.kernel import Candidate
from edgemeta.kernels.cuda.popc import launch as popc
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv
from edgemeta.model.weights import BinaryWeights, FixedWeights, Weights
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.devices import DEVICES
from tests.kernels.cuda.one_step import Layout, step_of

COMMAND = "python benchmarks/popc.py"
NONE = (0, 0, 0, 0)
OTHERS = tuple(kernel for kernel in KERNELS if kernel not in (popc.candidates, popc.alternatives))
OTHER_LAYERS = (
    Layout("28x28x128, 1x1 to 128", (28, 28, 128), 128, padding=NONE, kernel=(1, 1)),
    Layout("14x14x256, 3x3 to 256", (14, 14, 256), 256),
    Layout("14x14x40, 3x3 to 40", (14, 14, 40), 40),
)
Row: TypeAlias = dict[str, object]


def of_signs(shape: tuple[int, ...]) -> Weights:
    """Random weights of -1 and 1."""
    return FixedWeights((2 * np.random.default_rng(0).integers(0, 2, shape) - 1).astype(np.int8), 2, np.ones(1))


def of_two_bits(shape: tuple[int, ...]) -> Weights:
    """Random weights of -2 .. 1."""
    return FixedWeights(np.random.default_rng(0).integers(-2, 2, shape).astype(np.int8), 2, np.ones(1))


def of_bases(count: int) -> Callable[[tuple[int, ...]], Weights]:
    """Random bases, with factors whose sums fit int8."""

    def make(shape: tuple[int, ...]) -> Weights:
        rng = np.random.default_rng(0)
        basis = (2 * rng.integers(0, 2, (count, *shape)) - 1).astype(np.int8)
        factors = rng.integers(1, 127 // count + 1, (shape[0], count)).astype(np.int16)
        return BinaryWeights(basis, factors, np.ones(1))

    return make


KINDS: Mapping[str, tuple[Callable[[tuple[int, ...]], Weights], int, int]] = MappingProxyType(
    {
        "W1A1": (of_signs, 1, 1),
        "W1A2": (of_signs, 1, 2),
        "W1A4": (of_signs, 1, 4),
        "W2A1": (of_two_bits, 2, 1),
        "W2A2": (of_two_bits, 2, 2),
        "W2A4": (of_two_bits, 2, 4),
        "B2A2": (of_bases(2), 2, 2),
        "B3A2": (of_bases(3), 3, 2),
        "B3A4": (of_bases(3), 3, 4),
        "B6A6": (of_bases(6), 6, 6),
    }
)
"""Weights, their planes, and bits of the activations."""

SOME_KINDS, SOME_LAYERS = ("W1A1", "W1A2", "W2A2", "B2A2"), ("conv1", "conv5", "conv8", *(e.name for e in OTHER_LAYERS))
"""Where there are tensor cores, on which all tiles are simulated."""


def main() -> None:
    """Simulate everything and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", choices=tuple(DEVICES), default="sm_53")
    architecture = ARCHITECTURES[parser.parse_args().arch]
    compiler = wheel_compiler()
    convs = [layer for layer in load(find("resnet8-cifar10")).layers if isinstance(layer, Conv)]
    layouts = [*map(layout_of, convs[1:]), *OTHER_LAYERS]  # the first reads 8-bit pixels
    kinds = tuple(KINDS)
    if architecture.tensor_int8:
        layouts, kinds = [layout for layout in layouts if layout.name in SOME_LAYERS], SOME_KINDS
    rows = [row(layout, kind, architecture, compiler) for layout in layouts for kind in kinds]
    command = COMMAND if architecture.name == "sm_53" else f"{COMMAND} --arch {architecture.name}"
    name = f"popc-{architecture.name}"
    write_json(name, command, {"compiler": str(compiler), "architecture": architecture.name, "layers": rows})
    write_markdown(name, command, table(rows))


def row(layout: Layout, kind: str, architecture: Architecture, compiler: Compiler) -> Row:
    """Predicted microseconds of one convolution by popcount and by the kernel that is chosen without it."""
    make, planes, bits = KINDS[kind]
    model = of_weights(layout, make, bits)
    step, tensors = step_of(model)
    mhz = DEVICES[architecture.name].clock_mhz
    offers = [each for kernel in OTHERS for each in kernel(step, tensors, architecture)]
    other, ours = offers[0], next(iter(popc.forced(step, tensors, architecture)))
    tiles = [each for each in offers if each.kernel == other.kernel == "tensor"] or [other]
    times = [counted(each, model, compiler, architecture)[0] for each in tiles]
    popc_us, popc_count = counted(ours, model, compiler, architecture)
    result: Row = {
        "layer": layout.name,
        "kind": kind,
        "pairs": planes * bits,
        "other": named(other),
        "other_us": times[0],
        "other_fastest_us": min(times),
        "other_estimated_us": round(popc.others_clocks(step, tensors, architecture) / mhz, 2),
        "popc_us": popc_us,
        "popc_estimated_us": round(popc.predicted_clocks(step, tensors, architecture) / mhz, 2),
        "popc_warp_instructions": popc_count,
        "by_rule": "popc" if list(popc.candidates(step, tensors, architecture)) else named(other),
    }
    print(result, flush=True)
    return result


def of_weights(layout: Layout, make: Callable[[tuple[int, ...]], Weights], bits: int) -> Model:
    """The convolution on its own."""
    model = of_bits(layout, 2, bits)
    (conv,) = model.layers
    assert isinstance(conv, Conv)
    return replace(model, layers=(replace(conv, weights=make(conv.weights.shape)),))


def named(candidate: Candidate) -> str:
    """Kernel and form."""
    fields = f", {candidate.tile['fields']} fields" if "fields" in candidate.tile else ""
    return candidate.kernel + fields + (", int4" if candidate.tile.get("bits") == 4 else "")


def table(rows: list[Row]) -> str:
    """One line for each layer and kind."""
    head = ["layer", "kind", "pairs", "without popcount", "us", "fastest tile, us", "popcount, us", "ratio", "by rule"]
    lines = []
    for each in rows:
        fastest, ours = each["other_fastest_us"], each["popc_us"]
        assert isinstance(fastest, float)
        assert isinstance(ours, float)
        columns = [each[key] for key in ("layer", "kind", "pairs", "other", "other_us")]
        lines.append([*columns, fastest, ours, f"{fastest / ours:.2f}", each["by_rule"]])
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in (head, ["---"] * len(head), *lines))


if __name__ == "__main__":
    main()
