"""Predicted gain of several products in one multiplication (kernels/cuda/direct/fields.py) and of int4 tensor cores.

    python benchmarks/sub_byte.py                  # fields, on sm_53
    python benchmarks/sub_byte.py --arch sm_87     # int4 tensor cores

Convolutions on their own, without what is fused with them, with random weights of all values of so many bits. Warp
instructions are counted in the machine code; times are predicted, not measured. Writes results/sub-byte.json and .md,
for sm_87 results/sub-byte-sm_87.json and .md.

sm_53: each convolution of ResNet-8, by the direct kernel of one product per multiplication, the one with fields, and
the kernel that is chosen.

sm_87: W4A4 convolutions of ResNet-8, ResNet-18 and ResNet-50 with a multiple of 32 input channels, and two with a
residual of 4 bits, by the tensor kernel: with int8 products, with int4 products of bytes that it packs when they are
loaded, and with int4 products where input, output and residual have two channels to a byte. In us, with the tile that
is chosen by rule, and with the fastest of all tiles.
"""

import argparse
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cuda.compile.compiler import Compiler, wheel_compiler
from edgemeta.kernels.cuda.direct.launch import candidates as direct
from edgemeta.kernels.cuda.lowering import KERNELS
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.kernel import Candidate
from edgemeta.kernels.cuda.tensor.launch import candidates as tensor
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv, TensorType
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.cost import cost
from tests.kernels.cuda.one_step import SM_53, Layout, network, plan_of, step_of

COMMAND = "python benchmarks/sub_byte.py"
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
Row: TypeAlias = dict[str, object]


def main() -> None:
    """Count everything and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", choices=("sm_53", "sm_87"), default="sm_53")
    architecture = parser.parse_args().arch
    compiler = wheel_compiler()
    convs = [layer for layer in load(find("resnet8-cifar10")).layers if isinstance(layer, Conv)]
    if architecture == "sm_53":
        rows = [row(conv, kind, compiler) for kind in KINDS for conv in convs[1:]]  # the first reads 8-bit pixels
        head = ["layer", "kind", "direct, us", "with fields, us", "fields", "ratio", "chosen", "chosen, us"]
        write("sub-byte", COMMAND, SM_53, compiler, rows, head, [_line(each) for each in rows])
    else:
        layouts = [layout_of(conv) for conv in convs if conv.weights.shape[3] % 32 == 0]
        rows = [int4_row(each, signed, compiler) for signed in (False, True) for each in (*layouts, *OTHER_LAYERS)]
        head = ["layer", "input", *(f"{which}{way}" for which in ("", "fastest ") for way in (*WAYS, "int8 / nibbles"))]
        lines = [_int4_line(each) for each in rows]
        write("sub-byte-sm_87", f"{COMMAND} --arch sm_87", SM_87, compiler, rows, head, lines)


def write(
    name: str,
    command: str,
    architecture: Architecture,
    compiler: Compiler,
    rows: list[Row],
    head: list[str],
    lines: list[str],
) -> None:
    """Both files."""
    write_json(name, command, {"compiler": str(compiler), "architecture": architecture.name, "layers": rows})
    write_markdown(name, command, "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines]))


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


def _line(each: Row) -> str:
    plain, packed = each["direct_us"], each["fields_us"]
    ratio = f"{plain / packed:.2f}" if isinstance(plain, float) and isinstance(packed, float) else "-"
    columns = (each["layer"], each["kind"], plain, packed or "-", each["fields"] or "-", ratio)
    return f"| {' | '.join(map(str, columns))} | {each['chosen']} | {each['chosen_us']} |"


def _int4_line(each: Row) -> str:
    columns: list[object] = [each["layer"], each["input"]]
    for key in ("us", "fastest_us"):
        int8, of_bytes, of_nibbles = (_figure(each[way], key) for way in WAYS)
        columns += [f"{value:.2f}" for value in (int8, of_bytes, of_nibbles, int8 / of_nibbles)]
    return f"| {' | '.join(map(str, columns))} |"


def _figure(way: object, key: str) -> float:
    assert isinstance(way, dict)
    return float(way[key])


if __name__ == "__main__":
    main()
