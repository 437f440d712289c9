"""Checks the precision simulator's number formats against oracles that share no code with it.

    python benchmarks/simulate_formats.py [--json]

Floats, fixed-point numbers and powers of two of up to 8 bits: every value, every middle of two and their neighbours,
beside exact rationals. Other formats: random and special float32 inputs (--inputs, ten million) beside NumPy in
float64, and beside `ml_dtypes` where it has the format. All four roundings, stochastic with Philox in NumPy. Compared
are the definition in PyTorch and the C++ library on each instruction set of this machine. Prints the number of
differences and writes results/simulate-formats.json and .md; exit code 1 if there are any.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import version

import ml_dtypes
import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.result_file import write_json, write_markdown
from benchmarks.simulate_oracles import (
    Floats,
    Words,
    inputs_for,
    nearest,
    random_words,
    round_in_doubles,
    scale_of,
    small_formats,
    values_of,
)
from edgemeta.kernels.simulate.library import ISA_NAMES, ROUNDINGS, Places, best_isa, round_at
from edgemeta.kernels.simulate.library import Rounding as Rule
from edgemeta.toolchain.number_formats.formats import PRESETS, Block, FixedPoint, FlexFloat, Float32, Integer
from edgemeta.toolchain.simulate.definition import round_by_definition
from edgemeta.toolchain.simulate.scales import Scalable, Scales, block_scales, grid_of, scales

COLUMNS = 64
"""Channels of a tensor, and elements of a row."""

SEED, STEP, TENSOR, FIRST, STRIDE = 3 << 40, 7, 5, 2, 3
CHUNK = 1 << 20

OTHERS: dict[str, Scalable | Block] = {
    "fixed, 16 bits": FixedPoint(bits=16, fraction=8),
    "fixed, 24 bits": FixedPoint(bits=24, fraction=12),
    "int, 16 bits": Integer(bits=16),
    "int, 8 bits, unsigned": Integer(bits=8, signed=False),
    "flexfp(6, 9)": FlexFloat(exponent=6, mantissa=9),
    "flexfp(5, 10), shared": FlexFloat(exponent=5, mantissa=10, shared_exponent=True),
    "block of fixed, 16 bits": Block(element=FixedPoint(bits=16, fraction=14), size=16),
}

PEERS: dict[str, type] = {
    "bfloat16": ml_dtypes.bfloat16,
    "float16": np.float16,
    "flexfp(5, 2), IEEE": ml_dtypes.float8_e5m2,
    "flexfp(4, 3), NaN": ml_dtypes.float8_e4m3fn,
    "flexfp(4, 3), IEEE": ml_dtypes.float8_e4m3,
    "flexfp(3, 4), IEEE": ml_dtypes.float8_e3m4,
}
"""Formats of `ml_dtypes`, which rounds to nearest even, and overflows."""

OVERFLOWING: dict[str, Scalable | Block] = {
    "flexfp(5, 2), IEEE": FlexFloat(exponent=5, mantissa=2, specials="ieee", overflow="special"),
    "flexfp(4, 3), NaN": FlexFloat(exponent=4, mantissa=3, specials="nan", overflow="special"),
    "flexfp(4, 3), IEEE": FlexFloat(exponent=4, mantissa=3, specials="ieee", overflow="special"),
    "flexfp(3, 4), IEEE": FlexFloat(exponent=3, mantissa=4, specials="ieee", overflow="special"),
}

Row = dict[str, int]
"""Inputs, and differences by what was compared."""

Result = tuple[Floats, NDArray[np.bool_]]
"""Rounded elements, and which were not limited."""


def measure(inputs: int, smallest: int | None = None) -> dict[str, Row]:
    """Differences by format; inputs: of each of the formats that are not small, for each rounding.

    smallest: how many of the small formats, for a short run.
    """
    rows = {"all floats, fixed and powers of two of up to 8 bits": _small(smallest)}
    formats = {name: kind for name, kind in PRESETS.items() if not isinstance(kind, Float32)}
    for name, kind in {**formats, **OVERFLOWING, **OTHERS}.items():
        row = rows[name] = {"inputs": 0, "definition": 0, **dict.fromkeys(_isas(), 0)}
        for number, x in enumerate(_chunks(inputs, wide=isinstance(kind, Block) or not _has_scale(kind))):
            words = _words(len(x), number)
            for rounding in ROUNDINGS:
                expected = _expected(kind, x, rounding, words)
                for by, found in _found(kind, x, rounding, number).items():
                    row[by] += _differences(found, expected)
            if name in PEERS:
                row["ml_dtypes"] = row.get("ml_dtypes", 0) + _from_peer(kind, x, PEERS[name])
            row["inputs"] += x.size * len(ROUNDINGS)
    return rows


def as_table(rows: dict[str, Row]) -> str:
    """Markdown, a line for each format."""
    columns = ["inputs", "definition", *_isas(), "ml_dtypes"]
    lines = [f"| format | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    lines += [f"| {name} | " + " | ".join(f"{row.get(key, ''):,}" if key in row else "" for key in columns) + " |"
              for name, row in rows.items()]  # fmt: skip
    return "\n".join(lines)


def differences_of(rows: dict[str, Row]) -> int:
    """All of them."""
    return sum(count for row in rows.values() for key, count in row.items() if key != "inputs")


def _small(count: int | None) -> Row:
    row: Row = {"inputs": 0, "definition": 0, **dict.fromkeys(_isas(), 0)}
    for kind in list(small_formats())[:count]:
        values = values_of(kind)
        floats = [float(value) for value in values]
        x = inputs_for(values)
        x = np.resize(x, (-(-x.size // COLUMNS), COLUMNS))
        words = _words(len(x), 0).ravel().tolist()
        for rounding in ROUNDINGS:
            rounded = [
                float(nearest(value, values, floats, rounding, word))
                for value, word in zip(x.ravel().tolist(), words, strict=True)
            ]
            magnitudes = np.abs(np.array(rounded, np.float32)).reshape(x.shape)
            plain = scales(kind, torch.zeros(2)) if not _has_scale(kind) else _of_powers()
            for by, (found, _) in _found(kind, x, rounding, 0, plain).items():
                row[by] += _differences(
                    (found, np.ones(0, np.bool_)), (np.copysign(magnitudes, x), np.ones(0, np.bool_))
                )
        row["inputs"] += x.size * len(ROUNDINGS)
    return row


def _of_powers() -> Scales:
    """Powers of two up to 1."""
    one = torch.ones(1)
    return Scales(one, -one, one, torch.zeros(1))


def _chunks(inputs: int, wide: bool) -> Iterator[Floats]:
    """Tensors [rows, COLUMNS]; wide: also of random patterns, of all magnitudes."""
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1e-39, 1.5, -0.5, 2.5]
    for number, start in enumerate(range(0, inputs, CHUNK)):
        rng = np.random.default_rng(number)
        count = -(-min(CHUNK, inputs - start) // COLUMNS) * COLUMNS
        near = np.ldexp(rng.normal(size=count), rng.integers(-20, 12, count)).astype(np.float32)
        ties = np.ldexp(rng.integers(-512, 512, count).astype(np.float64), rng.integers(-12, 4, count))
        x = np.where(rng.random(count) < 0.3, ties.astype(np.float32), near)
        if wide:
            patterns = rng.integers(0, 1 << 32, count, np.uint64).astype(np.uint32).view(np.float32)
            x = np.where(rng.random(count) < 0.5, patterns, x)
        places = rng.integers(0, count, count // 100)
        x[places] = np.resize(np.array(special, np.float32), len(places))
        yield x.reshape(-1, COLUMNS)


def _expected(kind: Scalable | Block, x: Floats, rounding: str, words: Words) -> Result:
    found, lowest, highest = scale_of(kind, x)
    scale = np.asarray(found, np.float32)
    limits = np.float64(lowest), np.float64(highest)
    with np.errstate(over="ignore", invalid="ignore"):
        y, inside = round_in_doubles(x / scale, grid_of(kind), *limits, rounding, words)
        return y * scale, inside


def _found(
    kind: Scalable | Block, x: Floats, rounding: str, number: int, given: Scales | None = None
) -> dict[str, Result]:
    """What the definition and the library make of a tensor on each instruction set."""
    tensor = torch.from_numpy(x)
    if given is not None:
        found = given
    elif isinstance(kind, Block):
        found = block_scales(kind, tensor.unsqueeze(2))
    else:
        finite = torch.where(tensor.isfinite(), tensor, 0.0)
        if not (isinstance(kind, Integer) and kind.per_channel):
            finite = finite.reshape(-1, 1)
        found = scales(kind, torch.stack((finite.amin(0), finite.amax(0)), 1))
    grid, block = grid_of(kind), kind.size if isinstance(kind, Block) else 0
    counter = torch.tensor([SEED, STEP, TENSOR + number, FIRST, STRIDE])
    each = found.scale, found.lowest, found.highest
    y, inside = round_by_definition(tensor, *each, counter, grid, rounding, 1, block)  # type: ignore[arg-type]
    results = {"definition": (y.numpy(), _unpacked(inside.numpy(), x))}
    scale, lowest, highest = (part.contiguous().numpy() for part in each)
    rule = Rule(grid.mantissa, grid.quantum, rounding, grid.beyond, lowest, highest, scale, block)
    places = Places(SEED, STEP, TENSOR + number, COLUMNS, FIRST, STRIDE)
    shape = (len(x), COLUMNS, 1) if block or len(scale) > 1 else (x.size, 1, 1)
    for isa in _isas():
        out, bits = np.empty_like(x), np.zeros((x.size + 7) // 8, np.uint8)
        round_at(x.ctypes.data, out.ctypes.data, shape, rule, inside=bits.ctypes.data, places=places, isa=isa)
        results[isa] = out, _unpacked(bits, x)
    return results


@lru_cache(maxsize=16)
def _words(rows: int, number: int) -> Words:
    row, column = np.divmod(np.arange(rows * COLUMNS, dtype=np.uint64), np.uint64(COLUMNS))
    places = (FIRST + row * np.uint64(STRIDE)) * np.uint64(COLUMNS) + column
    return random_words(places, SEED, STEP, TENSOR + number).reshape(rows, COLUMNS)


def _from_peer(kind: Scalable | Block, x: Floats, dtype: type) -> int:
    with np.errstate(over="ignore", invalid="ignore"):
        expected = x.astype(dtype).astype(np.float32)
    found, _ = _found(kind, x, "nearest_even", 0)["definition"]
    return _other_bits(found, expected)


def _differences(found: Result, expected: Result) -> int:
    """Elements with other bits, and those that only one says were limited."""
    return _other_bits(found[0], expected[0]) + int((found[1] != expected[1]).sum())


def _other_bits(found: Floats, expected: Floats) -> int:
    """Elements with other bits; of NaN only that it is one."""
    same = found.view(np.uint32) == expected.view(np.uint32)
    return int((~(same | np.isnan(found) & np.isnan(expected))).sum())


def _unpacked(bits: NDArray[np.uint8], like: Floats) -> NDArray[np.bool_]:
    return np.unpackbits(bits, count=like.size, bitorder="little").astype(np.bool_).reshape(like.shape)


def _has_scale(kind: Scalable | Block) -> bool:
    return not isinstance(kind, FixedPoint) and not (isinstance(kind, FlexFloat) and not kind.shared_exponent)


def _isas() -> tuple[str, ...]:
    return ISA_NAMES[1 : ISA_NAMES.index(best_isa()) + 1]


def main() -> int:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=10_000_000, help="of each format and rounding (default 10000000)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    chosen = parser.parse_args()
    rows = measure(chosen.inputs)
    command = "python benchmarks/simulate_formats.py"
    if chosen.inputs != parser.get_default("inputs"):
        command += f" --inputs {chosen.inputs}"
    values = {"ml_dtypes": version("ml_dtypes"), "differences": differences_of(rows), "formats": rows}
    table = as_table(rows)
    print(json.dumps(values, indent=2) if chosen.json else table)
    write_json("simulate-formats", command, values)
    write_markdown("simulate-formats", command, table)
    return 1 if differences_of(rows) else 0


if __name__ == "__main__":
    sys.exit(main())
