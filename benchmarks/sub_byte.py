"""Predicted gain of several products in one multiplication (kernels/cuda/direct/fields.py) on sm_53.

    python benchmarks/sub_byte.py

Each convolution of ResNet-8 on its own, without what is fused with it, with random weights of all values of so many
bits: the direct kernel of one product per multiplication, the one with fields, and the kernel that is chosen. Warp
instructions are counted in the machine code; times are predicted, not measured. Writes results/sub-byte.json and .md.
"""

import argparse
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cuda.compile.compiler import Compiler, wheel_compiler
from edgemeta.kernels.cuda.direct.launch import candidates as direct
from edgemeta.kernels.cuda.lowering import KERNELS
from edgemeta.kernels.cuda.machine_code.cost import cost
from edgemeta.kernels.cuda.plan.kernel import Candidate
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.layers import Conv, TensorType
from edgemeta.model.zoo import find
from tests.kernels.cuda.one_step import SM_53, Layout, network, plan_of, step_of

COMMAND = "python benchmarks/sub_byte.py"
KINDS = {"W4A4": (4, 4), "W2A2": (2, 2), "W2A8": (2, 8)}
Row: TypeAlias = dict[str, object]


def main() -> None:
    """Count everything and write the files."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    compiler = wheel_compiler()
    convs = [layer for layer in load(find("resnet8-cifar10")).layers if isinstance(layer, Conv)]
    rows = [row(conv, kind, compiler) for kind in KINDS for conv in convs[1:]]  # the first reads pixels of eight bits
    write_json("sub-byte", COMMAND, {"compiler": str(compiler), "architecture": SM_53.name, "layers": rows})
    head = "| layer | kind | direct, us | with fields, us | fields | ratio | chosen | chosen, us |"
    write_markdown("sub-byte", COMMAND, "\n".join([head, "|---|---|---|---|---|---|---|---|", *map(_line, rows)]))


def row(conv: Conv, kind: str, compiler: Compiler) -> Row:
    """Predicted microseconds and counted warp-instructions of one convolution."""
    weight_bits, activation_bits = KINDS[kind]
    model = of_bits(conv, weight_bits, activation_bits)
    step, tensors = step_of(model)
    plain_model = of_bits(conv, 8, 8)
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


def of_bits(conv: Conv, weight_bits: int, activation_bits: int) -> Model:
    """The convolution on its own, with unsigned activations and random weights of all values of so many bits."""
    filters, *kernel, channels = conv.weights.shape
    height, width, _ = conv.output.shape
    rows, columns = height * conv.stride[0], width * conv.stride[1]
    kind = TensorType((1, 1, 1), bits=activation_bits, signed=False)
    layout = Layout(
        conv.name,
        (rows, columns, channels),
        filters,
        source=kind,
        target=TensorType((1, 1, 1), signed=False),
        padding=conv.padding,
        kernel=(kernel[0], kernel[1]),
        stride=conv.stride,
    )
    end = 1 << (weight_bits - 1)
    weights: NDArray[np.int8] = np.random.default_rng(0).integers(1 - end, end, conv.weights.shape).astype(np.int8)
    weights.flat[0] = 1 - end
    return network(layout, weights)


def counted(candidate: Candidate, model: Model, compiler: Compiler) -> tuple[float, int]:
    """Predicted microseconds without the launch, and warp-instructions."""
    (launch,) = cost(plan_of(model, candidate), model, compiler).launches
    assert launch.busy_us is not None
    return round(launch.busy_us, 1), launch.run.warp_instructions


def _line(each: Row) -> str:
    plain, packed = each["direct_us"], each["fields_us"]
    ratio = f"{plain / packed:.2f}" if isinstance(plain, float) and isinstance(packed, float) else "-"
    columns = (each["layer"], each["kind"], plain, packed or "-", each["fields"] or "-", ratio)
    return f"| {' | '.join(map(str, columns))} | {each['chosen']} | {each['chosen_us']} |"


if __name__ == "__main__":
    main()
