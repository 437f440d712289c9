"""Predicted gain of products of few bits on CUDA; times are predicted by simulating machine code, not measured.

    python benchmarks/cuda_low_bits.py fields                   # several products in one multiplication, on sm_53
    python benchmarks/cuda_low_bits.py int4                     # int4 tensor cores, on sm_87
    python benchmarks/cuda_low_bits.py popcount [--arch sm_87]  # popcount over bit planes, by widths

Convolutions on their own, without what is fused with them, with random weights of all values of so many bits. Warp
instructions are counted in the machine code.

fields (kernels/cuda/direct/fields.py): each convolution of ResNet-8, by the direct kernel of one product per
multiplication, the one with fields, and the kernel that is chosen. Writes results/sub-byte.{json,md}.

int4: W4A4 convolutions of ResNet-8, ResNet-18 and ResNet-50 with a multiple of 32 input channels, and two with a
residual of 4 bits, by the tensor kernel: with int8 products, with int4 products of bytes that it packs when they are
loaded, and with int4 products where input, output and residual have two channels to a byte. In us, with the tile that
is chosen by rule, and with the fastest of all tiles. Writes results/sub-byte-sm_87.{json,md}.

popcount (kernels/cuda/popc): convolutions of ResNet-8 and three larger ones. W1: weights of -1 and 1. W2: of two bits.
B: bases of -1 and 1 with integer factors, which as integers need 8 bits. A: bits of the unsigned activations. Each
layer is run by the popcount kernel and by the kernel that is chosen without it, both with the tile that is chosen by
rule, on tensor cores with the fastest of all tiles, too. `pairs` is the number of pairs of planes, `by rule` what the
planner takes. Writes results/popc-ARCH.{json,md}.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cuda.compile.compiler import Compiler, wheel_compiler
from edgemeta.kernels.cuda.direct.launch import candidates as direct
from edgemeta.kernels.cuda.lowering import KERNELS
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.kernel import Candidate
from edgemeta.kernels.cuda.popc import launch as popc
from edgemeta.kernels.cuda.tensor.launch import candidates as tensor
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv, TensorType
from edgemeta.model.weights import BinaryWeights, FixedWeights, Weights
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.cost import cost
from edgemeta_proof.machine_code.devices import DEVICES
from tests.kernels.cuda.one_step import SM_53, Layout, network, plan_of, step_of

COMMAND = "python benchmarks/cuda_low_bits.py"
Row: TypeAlias = dict[str, object]


KINDS = {"W4A4": (4, 4), "W2A2": (2, 2), "W2A8": (2, 8)}
SM_87 = ARCHITECTURES["sm_87"]
OTHER_LAYERS = (
    Layout("56x56x64, 3x3 to 64", (56, 56, 64), 64),
    Layout("28x28x128, 3x3 to 128", (28, 28, 128), 128),
    Layout("14x14x256, 3x3 to 256", (14, 14, 256), 256),
    Layout("7x7x512, 3x3 to 512", (7, 7, 512), 512),
    Layout("28x28x128, 1x1 to 512", (28, 28, 128), 512, padding=(0, 0, 0, 0), kernel=(1, 1)),
    Layout("8x8x64, 3x3 to 64, residual", (8, 8, 64), 64, adds=True),
    Layout("56x56x64, 3x3 to 64, residual", (56, 56, 64), 64, adds=True),
)
WAYS = {"int8": (8, False), "int4 of bytes": (4, False), "int4 of nibbles": (4, True)}
"""Bits of the products, and whether tensors have two channels to a byte."""

NONE = (0, 0, 0, 0)
OTHERS = tuple(kernel for kernel in KERNELS if kernel not in (popc.candidates, popc.alternatives))
POPCOUNT_LAYERS = (
    Layout("28x28x128, 1x1 to 128", (28, 28, 128), 128, padding=NONE, kernel=(1, 1)),
    Layout("14x14x256, 3x3 to 256", (14, 14, 256), 256),
    Layout("14x14x40, 3x3 to 40", (14, 14, 40), 40),
)


def main() -> None:
    """Count what the command names and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("fields")
    commands.add_parser("int4")
    commands.add_parser("popcount").add_argument("--arch", choices=tuple(DEVICES), default="sm_53")
    options = parser.parse_args()
    convs = [layer for layer in load(find("resnet8-cifar10")).layers if isinstance(layer, Conv)]
    if options.command == "fields":
        count_fields(convs[1:], wheel_compiler())  # the first reads 8-bit pixels
    elif options.command == "int4":
        count_int4(convs, wheel_compiler())
    else:
        count_popcount(convs[1:], ARCHITECTURES[options.arch], wheel_compiler())


def write(
    name: str, command: str, architecture: Architecture, compiler: Compiler, rows: list[Row], lines: list[list[object]]
) -> None:
    """Both files; the first line is the table's head."""
    write_json(name, command, {"compiler": str(compiler), "architecture": architecture.name, "layers": rows})
    head, *rest = (f"| {' | '.join(map(str, line))} |" for line in lines)
    write_markdown(name, command, "\n".join([head, "|" + "---|" * len(lines[0]), *rest]))


def layout_of(conv: Conv) -> Layout:
    """The shape of a convolution."""
    filters, *kernel, channels = conv.weights.shape
    height, width, _ = conv.output.shape
    return Layout(
        conv.name,
        (height * conv.stride[0], width * conv.stride[1], channels),
        filters,
        padding=conv.padding,
        kernel=(kernel[0], kernel[1]),
        stride=conv.stride,
    )


def of_bits(
    layout: Layout, weight_bits: int, activation_bits: int, signed: bool = False, output_bits: int = 8
) -> Model:
    """The convolution on its own, with random weights of all values of so many bits; signed: input and output."""
    source = TensorType((1, 1, 1), bits=activation_bits, signed=signed)
    typed = replace(layout, source=source, target=TensorType((1, 1, 1), bits=output_bits, signed=signed))
    end = 1 << (weight_bits - 1)
    shape = (layout.outputs, *layout.kernel, layout.shape[2])
    weights: NDArray[np.int8] = np.random.default_rng(0).integers(1 - end, end, shape).astype(np.int8)
    weights.flat[0] = 1 - end
    return network(typed, weights)


def counted(
    candidate: Candidate,
    model: Model,
    compiler: Compiler,
    architecture: Architecture = SM_53,
    nibbles: bool = False,
) -> tuple[float, int]:
    """Predicted microseconds without the launch, and warp-instructions."""
    (launch,) = cost(plan_of(model, candidate, architecture, nibbles=nibbles), model, compiler).launches
    assert launch.busy_us is not None
    return round(launch.busy_us, 1 if architecture is SM_53 else 2), launch.run.warp_instructions


def count_fields(convs: Sequence[Conv], compiler: Compiler) -> None:
    """Several products in one multiplication, on sm_53."""
    rows = [row(conv, kind, compiler) for kind in KINDS for conv in convs]
    head = ["layer", "kind", "direct, us", "with fields, us", "fields", "ratio", "chosen", "chosen, us"]
    write("sub-byte", f"{COMMAND} fields", SM_53, compiler, rows, [head, *map(_line, rows)])


def row(conv: Conv, kind: str, compiler: Compiler) -> Row:
    """Predicted microseconds and counted warp-instructions of one convolution on sm_53."""
    weight_bits, activation_bits = KINDS[kind]
    layout = layout_of(conv)
    model = of_bits(layout, weight_bits, activation_bits)
    step, tensors = step_of(model)
    plain_model = of_bits(layout, 8, 8)
    plain = next(iter(direct(*step_of(plain_model), SM_53)))
    fields = next((each for each in direct(step, tensors, SM_53) if "fields" in each.tile), None)
    chosen = next(each for kernel in KERNELS for each in kernel(step, tensors, SM_53))
    plain_us, plain_count = counted(plain, plain_model, compiler)
    chosen_us, _ = counted(chosen, model, compiler)
    fields_us, fields_count = counted(fields, model, compiler) if fields is not None else (None, None)
    print(kind, conv.name, plain_us, fields_us, chosen.kernel, flush=True)
    return {
        "layer": conv.name,
        "kind": kind,
        "direct_us": plain_us,
        "direct_warp_instructions": plain_count,
        "fields": None if fields is None else fields.tile["fields"],
        "fields_us": fields_us,
        "fields_warp_instructions": fields_count,
        "chosen": chosen.kernel + (" with fields" if "fields" in chosen.tile else ""),
        "chosen_us": chosen_us,
    }


def _line(each: Row) -> list[object]:
    plain, packed = each["direct_us"], each["fields_us"]
    ratio = f"{plain / packed:.2f}" if isinstance(plain, float) and isinstance(packed, float) else "-"
    columns = (each["layer"], each["kind"], plain, packed or "-", each["fields"] or "-", ratio)
    return [*columns, each["chosen"], each["chosen_us"]]


def count_int4(convs: Sequence[Conv], compiler: Compiler) -> None:
    """Tensor cores, on sm_87."""
    layouts = [layout_of(conv) for conv in convs if conv.weights.shape[3] % 32 == 0]
    rows = [int4_row(each, signed, compiler) for signed in (False, True) for each in (*layouts, *OTHER_LAYERS)]
    head = ["layer", "input", *(f"{which}{way}" for which in ("", "fastest ") for way in (*WAYS, "int8 / nibbles"))]
    write("sub-byte-sm_87", f"{COMMAND} int4", SM_87, compiler, rows, [head, *map(_int4_line, rows)])


def int4_row(layout: Layout, signed: bool, compiler: Compiler) -> Row:
    """Predicted microseconds and counted warp-instructions of one W4A4 convolution on sm_87, in three ways."""
    model = of_bits(layout, 4, 4, signed, 4)
    found = list(tensor(*step_of(model), SM_87))
    result: Row = {"layer": layout.name, "input": "s4" if signed else "u4", "chosen_bits": found[0].tile["bits"]}
    for way, (bits, nibbles) in WAYS.items():
        offers = [each for each in found if each.tile["bits"] == bits]
        times = {_shape(each): counted(each, model, compiler, SM_87, nibbles) for each in offers}
        chosen, fastest = _shape(offers[0]), min(times, key=lambda tile: times[tile][0])
        result[way] = {
            "tile": chosen,
            "us": times[chosen][0],
            "warp_instructions": times[chosen][1],
            "fastest_tile": fastest,
            "fastest_us": times[fastest][0],
        }
    print(result, flush=True)
    return result


def _shape(candidate: Candidate) -> tuple[int, int]:
    return candidate.tile["rows"], candidate.tile["columns"]


def _int4_line(each: Row) -> list[object]:
    columns: list[object] = [each["layer"], each["input"]]
    for key in ("us", "fastest_us"):
        int8, of_bytes, of_nibbles = (_figure(each[way], key) for way in WAYS)
        columns += [f"{value:.2f}" for value in (int8, of_bytes, of_nibbles, int8 / of_nibbles)]
    return columns


def _figure(way: object, key: str) -> float:
    assert isinstance(way, dict)
    return float(way[key])


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


PLANES: Mapping[str, tuple[Callable[[tuple[int, ...]], Weights], int, int]] = MappingProxyType(
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

SOME_KINDS, SOME_LAYERS = (
    ("W1A1", "W1A2", "W2A2", "B2A2"),
    ("conv1", "conv5", "conv8", *(e.name for e in POPCOUNT_LAYERS)),
)
"""Where there are tensor cores, on which all tiles are simulated."""


def count_popcount(convs: Sequence[Conv], architecture: Architecture, compiler: Compiler) -> None:
    """Popcount over bit planes."""
    layouts, kinds = [*map(layout_of, convs), *POPCOUNT_LAYERS], tuple(PLANES)
    if architecture.tensor_int8:
        layouts, kinds = [layout for layout in layouts if layout.name in SOME_LAYERS], SOME_KINDS
    rows = [popcount_row(layout, kind, architecture, compiler) for layout in layouts for kind in kinds]
    command = f"{COMMAND} popcount" + (f" --arch {architecture.name}" if architecture is not SM_53 else "")
    head = ["layer", "kind", "pairs", "without popcount", "us", "fastest tile, us", "popcount, us", "ratio", "by rule"]
    write(f"popc-{architecture.name}", command, architecture, compiler, rows, [head, *map(_popcount_line, rows)])


def popcount_row(layout: Layout, kind: str, architecture: Architecture, compiler: Compiler) -> Row:
    """Predicted microseconds of one convolution by popcount and by the kernel that is chosen without it."""
    make, planes, bits = PLANES[kind]
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


def _popcount_line(each: Row) -> list[object]:
    fastest, ours = each["other_fastest_us"], each["popc_us"]
    assert isinstance(fastest, float)
    assert isinstance(ours, float)
    columns = [each[key] for key in ("layer", "kind", "pairs", "other", "other_us")]
    return [*columns, fastest, ours, f"{fastest / ours:.2f}", each["by_rule"]]


if __name__ == "__main__":
    main()
