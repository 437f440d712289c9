"""Products of matrices of few bits on the cpu backend: every pair of widths, every form, every instruction set.

    python benchmarks/low_bits.py [--shape MxNxK] [--runs 50] [--out FOLDER]
    python benchmarks/low_bits.py --arm [--shapes 64x64x256,1024x1024x1024]

Each form's time is the least of the runs of the product alone, on one thread, and of every pair its result is compared
with NumPy's int64 on random integers and on the ends of the ranges. Also the three stages of the pairs of Kim, Hong and
Shin's figure 2 at the fastest form. Writes low-bits.json and low-bits.md, by default into benchmarks/results.

--arm: instructions per multiply-accumulate on emulated ARM processors. Weights and activations have the same width; the
planner chooses the form. A plugin of qemu counts from the first to the third product, so that the start is left out;
copies of the operands into and out of the library are in it. Writes results/arm-low-bits.{json,md}.
"""

import argparse
from collections.abc import Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import TypeAlias
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import RESULTS, write_json, write_markdown
from edgemeta.kernels.cpu.gemm import Gemm, measure, random_weights
from edgemeta.kernels.cpu.library import FORMS, supported_isas
from rig.arm.instructions import counting, difference
from rig.arm.library import EmulatedLibrary
from rig.arm.machines import MACHINES, Machine, build

COMMAND = "python benchmarks/low_bits.py"
WIDTHS = range(1, 9)
ARM_WIDTHS = (8, 4, 2, 1)
ASKED = {8: 0.25, 4: 0.17, 2: 0.10, 1: 0.04}
_LIBRARY = "edgemeta.kernels.cpu.program.library"
Shape: TypeAlias = tuple[int, int, int]


Row: TypeAlias = dict[str, object]


def main() -> None:
    """Measure or count everything and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="256x256x576", help="rows x outputs x inputs of the product")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--arm", action="store_true", help="count instructions on emulated ARM processors instead")
    parser.add_argument("--shapes", default="64x64x256,1024x1024x1024", help="of the products that --arm counts")
    arguments = parser.parse_args()
    if arguments.arm:
        count_on_arm([shape_of(text) for text in arguments.shapes.split(",")])
    else:
        measure_here(shape_of(arguments.shape), arguments.runs, arguments.out)


def shape_of(text: str) -> Shape:
    """Rows, outputs and inputs of "MxNxK"."""
    rows, outputs, inputs = (int(each) for each in text.split("x"))
    return rows, outputs, inputs


def measure_here(shape: Shape, runs: int, out: Path) -> None:
    """Time all pairs and stages on this machine."""
    isas, text = supported_isas(), "x".join(map(str, shape))
    pairs = [pair_row(shape, bits, isa, runs) for isa in isas for bits in product(WIDTHS, WIDTHS)]
    stages = [stage_row(shape, bits, isa, runs) for isa in isas for bits in WIDTHS]
    values = {"shape": text, "runs": runs, "pairs": pairs, "stages": stages}
    write_json("low-bits", COMMAND, values, out)
    head = f"Shape {text}, least of {runs} runs."
    write_markdown("low-bits", COMMAND, "\n\n".join([head, *tables(isas, pairs, stages)]), out)


def pair_row(shape: Shape, bits: tuple[int, int], isa: str, runs: int) -> Row:
    """Least microseconds of every form of one pair of widths, and how many sums of all forms were wrong."""
    rows, columns, depth = shape
    weights = random_weights((columns, depth), bits[0])
    row: Row = {"isa": isa, "weight_bits": bits[0], "input_bits": bits[1]}
    times, wrong = {}, 0
    for form in FORMS:
        with closing(Gemm(rows, weights, bits, isa=isa, form=form)) as gemm:
            runs_as = gemm.form.description.split(":")[0]
            if form == FORMS[0]:
                row |= {"chosen": runs_as, "why": gemm.form.description, "bytes": gemm.form.weight_bytes}
            elif form != runs_as:
                continue
            else:
                times[form] = round(min(gemm.time(inputs(rows, depth, bits[1], 0)) for _ in range(runs)), 1)
            wrong += mismatches(gemm, rows, weights, bits[1])
    print(isa, bits, row["chosen"], times, wrong, flush=True)
    return row | {"us": times, "mismatches": wrong}


def inputs(rows: int, depth: int, bits: int, kind: int) -> NDArray[np.uint8]:
    """Unsigned integers [rows, depth]: random (0), or the ends of their range (1)."""
    random = np.random.default_rng(2)
    if kind == 0:
        return random.integers(0, 1 << bits, (rows, depth)).astype(np.uint8)
    return random.choice([0, (1 << bits) - 1], (rows, depth)).astype(np.uint8)


def mismatches(gemm: Gemm, rows: int, weights: NDArray[np.int8], input_bits: int) -> int:
    """Sums that differ from NumPy's, of random inputs and of those at the ends of the range."""
    wrong = 0
    for kind in (0, 1):
        x = inputs(rows, weights.shape[1], input_bits, kind)
        # These sums are exact in float64, whose product is much faster than int64's.
        wrong += int(np.count_nonzero(gemm.multiply(x) != x.astype(np.float64) @ weights.T.astype(np.float64)))
    return wrong


def stage_row(shape: Shape, bits: int, isa: str, runs: int) -> Row:
    """Least microseconds of quantize, product and dequantize with both widths `bits`."""
    rows, columns, depth = shape
    weights = random_weights((columns, depth), bits)
    with closing(Gemm(rows, weights, (bits, bits), isa=isa)) as gemm:
        stages = measure(gemm, rows, weights, bits, runs)
        return {
            "isa": isa,
            "bits": bits,
            "quantize_us": round(float(stages.quantize.min()), 1),
            "gemm_us": round(float(stages.gemm.min()), 1),
            "dequantize_us": round(float(stages.dequantize.min()), 1),
            "bytes": gemm.form.weight_bytes,
        }


def tables(isas: tuple[str, ...], pairs: list[Row], stages: list[Row]) -> list[str]:
    """For each instruction set: time and form by widths; then the three stages by width."""
    wrong = sum(int(str(each["mismatches"])) for each in pairs)
    found = [f"Sums that differ from NumPy's int64, of all pairs, forms and instruction sets: {wrong}."]
    for isa in isas:
        head = [f"| {isa}: weights \\ activations | {' | '.join(f'{a} bit' for a in WIDTHS)} |", "|---" * 9 + "|"]
        of_isa = [each for each in pairs if each["isa"] == isa]
        lines = [
            f"| {w} bit | {' | '.join(_cell(each) for each in of_isa if each['weight_bits'] == w)} |" for w in WIDTHS
        ]
        found.append("\n".join([*head, *lines]))
    found.append("Microseconds of the form that the planner chose, its name, and the time of the 8-bit form (plain).")
    columns = ("isa", "bits", "quantize_us", "gemm_us", "dequantize_us", "bytes")
    lines = [f"| {' | '.join(str(each[key]) for key in columns)} |" for each in stages]
    found.append("\n".join([f"| {' | '.join(columns)} |", "|---" * len(columns) + "|", *lines]))
    return found


def _cell(row: Row) -> str:
    times = row["us"]
    assert isinstance(times, dict)
    return f"{times[row['chosen']]} {row['chosen']} ({times['plain']})"


def count_on_arm(shapes: Sequence[Shape]) -> None:
    """Count the products of each emulated processor."""
    rows: list[Row] = []
    for shape in shapes:
        m, n, k = shape
        for machine in MACHINES:
            row: Row = {"shape": f"{m}x{n}x{k}", "processor": machine.processor, "isa": machine.isa}
            for bits in ARM_WIDTHS:
                instructions, form = count(machine, shape, bits)
                row |= {str(bits): round(instructions / (m * n * k), 4), f"{bits} form": form}
            rows.append(row)
            print(row, flush=True)
    command = f"{COMMAND} --arm"
    write_json("arm-low-bits", command, {"instructions_per_multiply_accumulate": rows, "asked_of_neon": ASKED})
    write_markdown("arm-low-bits", command, arm_table(rows))


def count(machine: Machine, shape: tuple[int, int, int], bits: int) -> tuple[float, str]:
    """Instructions of one product of rows x inputs activations and outputs x inputs weights of some bits; the form."""
    rows, outputs, inputs = shape
    weights = random_weights((outputs, inputs), bits)
    x = np.random.default_rng(1).integers(0, 1 << bits, (rows, inputs)).astype(np.uint8)
    expected = (x.astype(np.float64) @ weights.T.astype(np.float64)).astype(np.int64)
    build(machine.architecture)
    forms = set()

    def run(products: int, log: Path) -> None:
        library = EmulatedLibrary(machine.command(*counting(log)))
        with (
            mock.patch(_LIBRARY, return_value=library),
            closing(Gemm(rows, weights, (bits, bits), isa=machine.isa)) as gemm,
        ):
            forms.add(gemm.form.description)
            for _ in range(products):
                np.testing.assert_array_equal(gemm.multiply(x), expected)
        library.stop()

    instructions = difference(run, (1, 3))
    return instructions, forms.pop()


def arm_table(rows: list[dict[str, object]]) -> str:
    """The Markdown arm_table."""
    widths = " | ".join(f"{bits} bits" for bits in ARM_WIDTHS)
    lines = [
        "Instructions per multiply-accumulate, weights and activations of the same width, one thread, and the form.",
        "",
        f"| product | processor | our set | {widths} |",
        "|---|---|---|" + "---|" * len(ARM_WIDTHS),
    ]
    for row in rows:
        counts = (f"{row[str(bits)]} {str(row[f'{bits} form']).split(':')[0]}" for bits in ARM_WIDTHS)
        words = (row["shape"], row["processor"], row["isa"], *counts)
        lines.append(f"| {' | '.join(map(str, words))} |")
    asked = " | ".join(str(ASKED[bits]) for bits in ARM_WIDTHS)
    return "\n".join([*lines, f"| asked of armv8.0 | | neon | {asked} |"])


if __name__ == "__main__":
    main()
