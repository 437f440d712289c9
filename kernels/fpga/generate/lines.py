"""Requantization tables that are lines, `clamp(a * (t + 128) + b >> shift, lo, hi)`, instead of block RAM.

A table of 256 bytes for each channel is the largest use of block RAM in a small device, though a batch norm with a
clamp needs two integers. `fitting` puts lines in the place of tables where a device lacks blocks; every integer stays.
"""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.build import Target
from edgemeta.kernels.fpga.generate.engines import TABLE, Engine, Memory
from edgemeta.kernels.fpga.generate.foldings import predicted
from edgemeta.kernels.fpga.generate.network import Network

LINE = 3
"""Mode of requantize.sv."""

_MOST_SHIFT = 16


@dataclass(frozen=True)
class Lines:
    """Of the tables of an engine: (a, b) of each, a >= 0, and what they have in common."""

    pairs: tuple[tuple[int, int], ...]
    shift: int
    lo: int
    hi: int


def fitting(network: Network, target: Target) -> Network:
    """The network itself where its block RAM fits into `target`, else with lines for all tables that are lines."""
    if predicted(network, is_serial=target.is_serial)[1] <= target.bram36:
        return network
    return with_lines(network)


def with_lines(network: Network) -> Network:
    """The network with lines instead of tables in every engine whose tables all are lines."""
    return replace(network, engines=tuple(map(_with_lines, network.engines)))


def _with_lines(engine: Engine) -> Engine:
    if engine.parameters.get("MODE") != TABLE:
        return engine
    table = engine.memories[-1]
    lines = lines_of(bytes(table.words), is_signed=engine.out_range.is_signed)
    if lines is None:
        return engine
    a_bits = max(1, max(a for a, _ in lines.pairs).bit_length())
    b_bits = 1 + max((b if b >= 0 else ~b).bit_length() for _, b in lines.pairs)
    words = [(b & ((1 << b_bits) - 1)) << a_bits | a for a, b in lines.pairs]
    constant = engine.parameters["TABLE_STYLE"] == "logic"
    parameters = {
        **engine.parameters,
        "MODE": LINE,
        "LO": lines.lo,
        "HI": lines.hi,
        "LINE_A": a_bits,
        "LINE_B": b_bits,
        "LINE_SHIFT": lines.shift,
        "TABLE_STYLE": "logic" if constant else "distributed",
    }
    memories = (*engine.memories[:-1], Memory("table", a_bits + b_bits, words))
    return replace(engine, parameters=parameters, memories=memories)


@cache
def lines_of(tables: bytes, *, is_signed: bool) -> Lines | None:
    """The lines of the least shift that give tables of 256 bytes each exactly, or None where one is no rising line."""
    values = np.frombuffer(tables, np.int8 if is_signed else np.uint8).reshape(-1, 256).astype(np.int64)
    lo, hi = int(values.min()), int(values.max())
    for shift in range(_MOST_SHIFT + 1):
        pairs = []
        for y in values:
            pair = _line(y, shift, lo, hi)
            if pair is None:
                break
            pairs.append(pair)
        else:
            return Lines(tuple(pairs), shift, lo, hi)
    return None


def _line(y: NDArray[np.int64], shift: int, lo: int, hi: int) -> tuple[int, int] | None:
    """The least a >= 0, and a b, with clamp(a * t + b >> shift, lo, hi) == y[t] for t = 0 .. 255; y: [256].

    a * t + b must be at least y << shift where y > lo, and less than (y + 1) << shift where y < hi. So each pair of a
    lower and an upper bound bounds a.
    """
    above, below = np.flatnonzero(y > lo), np.flatnonzero(y < hi)
    least, most = y[above] << shift, ((y[below] + 1) << shift) - 1
    distance = above[:, np.newaxis] - below
    difference = least[:, np.newaxis] - most
    rising, falling = distance > 0, distance < 0
    a = int((-(-difference[rising] // distance[rising])).max(initial=0))
    if a > (difference[falling] // distance[falling]).min(initial=np.iinfo(np.int64).max):
        return None
    if above.size:
        return a, int((least - a * above).max())
    return a, int((most - a * below).min(initial=0))
