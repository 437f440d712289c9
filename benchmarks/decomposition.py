"""Square error and time of decompositions into binary bases, beside plain alternating least squares from more starts.

python benchmarks/decomposition.py [--channels 8]

The plain form shares no code with the project's: it assigns each weight by search among the sums and fits by NumPy's
least squares, from two starts (greedy, even steps) and from sixteen (fourteen random ones more). Ratios are the
project's error over the plain one's; below 1 the project's is less. Writes benchmarks/results/decomposition.md.
"""

import argparse
import itertools
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import processor
from edgemeta.model.zoo import find
from edgemeta.toolchain.decompose.binary import decompose
from edgemeta.toolchain.decompose.integer import integer_form
from edgemeta.toolchain.float_model.file import load_float_model
from edgemeta.toolchain.float_model.graph import Conv, Dense

NETWORK = "resnet8-cifar10-float"
BASES = (2, 3, 4, 5, 6)
RESULT = Path(__file__).parent / "results" / "decomposition.md"
Real = NDArray[np.float64]


def plain(row: Real, bases: int, starts: int) -> float:
    """The least square error of alternating from so many starts."""
    signs = np.array(list(itertools.product((-1.0, 1.0), repeat=bases)))
    return min(_alternated(row, start, signs) for start in itertools.islice(_starts(row, bases), starts))


def _starts(row: Real, bases: int) -> Iterator[Real]:
    left, greedy = row.copy(), np.empty(bases)
    for number in range(bases):
        greedy[number] = np.abs(left).mean()
        left -= np.where(left < 0, -1.0, 1.0) * greedy[number]
    yield greedy
    greatest, rng = np.abs(row).max(), np.random.default_rng(0)
    yield greatest * 2.0 ** np.arange(bases) / (2**bases - 1)
    while True:
        yield greatest * rng.dirichlet(np.full(bases, 0.7)) * rng.uniform(0.6, 1.1)


def _alternated(row: Real, factors: Real, signs: Real) -> float:
    error = np.inf
    while True:
        sums = signs @ factors
        order = np.argsort(sums)
        matrix = signs[order[np.searchsorted((sums[order][1:] + sums[order][:-1]) / 2, row)]]
        factors = np.linalg.lstsq(matrix, row, rcond=None)[0]
        found = float(np.square(matrix @ factors - row).sum())
        if found >= error * (1 - 1e-9):
            return min(found, error)
        error = found


def outliers(channels: int) -> Real:
    """Normally distributed weights, and one of 60 in each channel."""
    rows = np.random.default_rng(1).standard_normal((channels, 144))
    rows[:, -1] = 60
    return rows


def rows_of(name: str, rows: Real) -> Iterator[str]:
    """A line of the table for each number of bases."""
    for bases in BASES:
        begin = time.process_time()
        found = decompose(rows, bases)
        took = (time.process_time() - begin) / len(rows)
        form = integer_form(rows, found, True, np.zeros(len(rows)))
        integer = float(np.square(rows - form.decode() * form.scale[:, None]).sum())
        error = float(found.errors.sum())
        two, many = (sum(plain(row, bases, starts) for row in rows) for starts in (2, 16))
        yield (
            f"| {name} | {bases} | {error:.5g} | {error / two:.3f} | {error / many:.3f} | {integer / error:.3f} | "
            f"{1000 * took:.1f} |"
        )


def main() -> None:
    """Print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channels", type=int, default=8, metavar="N", help="of each layer  [default: 8]")
    channels = parser.parse_args().channels
    head = [
        f"Square error of decompositions, the first {channels} channels of each layer of {NETWORK}, on one thread of "
        f"{processor()}. `python benchmarks/decomposition.py --channels {channels}`. Integer form: of 8 bits.",
        "",
        "| layer | bases | square error | over 2 starts | over 16 starts | integer form over it | ms per channel |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    layers = {
        layer.name: layer.weight.reshape(len(layer.weight), -1)[:channels].astype(np.float64)
        for layer in load_float_model(find(NETWORK)).layers
        if isinstance(layer, Conv | Dense)
    }
    lines = list(head)
    print("\n".join(head))
    for name, rows in [*layers.items(), ("one outlier", outliers(channels))]:
        for line in rows_of(name, rows):
            print(line, flush=True)
            lines.append(line)
    RESULT.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
