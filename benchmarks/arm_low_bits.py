"""Instructions per multiply-accumulate of products of matrices of few bits on emulated ARM processors.

    python benchmarks/arm_low_bits.py [--shapes 64x64x256,1024x1024x1024]

Weights and activations have the same width; the planner chooses the form. A plugin of qemu counts from the first to the
third product, so that the start is left out; copies of the operands into and out of the library are in it. All sums
are compared with NumPy's. Writes results/arm-low-bits.{json,md}.
"""

import argparse
from contextlib import closing
from pathlib import Path
from unittest import mock

import numpy as np

from benchmarks.result_file import write_json, write_markdown
from edgemeta.kernels.cpu.gemm import Gemm, random_weights
from rig.arm.instructions import counting, difference
from rig.arm.library import EmulatedLibrary
from rig.arm.machines import MACHINES, Machine, build

COMMAND = "python benchmarks/arm_low_bits.py"
WIDTHS = (8, 4, 2, 1)
ASKED = {8: 0.25, 4: 0.17, 2: 0.10, 1: 0.04}
_LIBRARY = "edgemeta.kernels.cpu.program.library"


def main() -> None:
    """Count and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default="64x64x256,1024x1024x1024", help="rows x outputs x inputs of each product")
    rows: list[dict[str, object]] = []
    for shape in parser.parse_args().shapes.split(","):
        m, n, k = (int(each) for each in shape.split("x"))
        for machine in MACHINES:
            row: dict[str, object] = {"shape": shape, "processor": machine.processor, "isa": machine.isa}
            for bits in WIDTHS:
                instructions, form = count(machine, (m, n, k), bits)
                row |= {str(bits): round(instructions / (m * n * k), 4), f"{bits} form": form}
            rows.append(row)
            print(row, flush=True)
    write_json("arm-low-bits", COMMAND, {"instructions_per_multiply_accumulate": rows, "asked_of_neon": ASKED})
    write_markdown("arm-low-bits", COMMAND, table(rows))


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


def table(rows: list[dict[str, object]]) -> str:
    """The Markdown table."""
    widths = " | ".join(f"{bits} bits" for bits in WIDTHS)
    lines = [
        "Instructions per multiply-accumulate, weights and activations of the same width, one thread, and the form.",
        "",
        f"| product | processor | our set | {widths} |",
        "|---|---|---|" + "---|" * len(WIDTHS),
    ]
    for row in rows:
        counts = (f"{row[str(bits)]} {str(row[f'{bits} form']).split(':')[0]}" for bits in WIDTHS)
        words = (row["shape"], row["processor"], row["isa"], *counts)
        lines.append(f"| {' | '.join(map(str, words))} |")
    asked = " | ".join(str(ASKED[bits]) for bits in WIDTHS)
    return "\n".join([*lines, f"| asked of armv8.0 | | neon | {asked} |"])


if __name__ == "__main__":
    main()
