"""Layers behind a table that are functions of the table's input become part of the table: the same integers, faster.

Networks of other programs keep sigmoid(x), x * sigmoid(x) and a change of scale apart, with integers for each.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.fixedpoint import rounding_shift, saturate
from edgemeta.model.graph import INPUT, readers_of
from edgemeta.model.layers import Layer, Lookup, Multiplier, Product, Rescale, TensorType


def join_tables(layers: Sequence[Layer], image: TensorType, outputs: Sequence[str]) -> tuple[Layer, ...]:
    """The same network with fewer layers; outputs keep their names and integers."""
    readers = readers_of(layers, outputs)
    types = {INPUT: image} | {layer.name: layer.output for layer in layers}
    tables: dict[str, Lookup] = {}
    result: dict[str, Layer] = {}
    for layer in layers:
        joined = _joined(layer, tables, types)
        if joined is not None:
            made, table = joined
            if readers[table] == 1:
                del result[table]
            layer = made
        if isinstance(layer, Lookup):
            tables[layer.name] = layer
        result[layer.name] = layer
    return tuple(result.values())


def _joined(layer: Layer, tables: dict[str, Lookup], types: dict[str, TensorType]) -> tuple[Lookup, str] | None:
    """The layer as a table of an earlier table's input, and the name of that table."""
    match layer:
        case Product(inputs=(a, b), requantize=Multiplier() as requantize):
            for gate, other in ((a, b), (b, a)):
                table = tables.get(gate)
                if table is not None and table.input == other and len(table.entries) == 1:
                    kind = types[other]
                    every = np.arange(256) - (128 if kind.signed else 0) - kind.zero_point
                    return _table(layer, table, every * _centred(table), requantize), gate
        case Rescale(input=gate, requantize=Multiplier() as requantize) if gate in tables:
            return _table(layer, tables[gate], _centred(tables[gate]), requantize), gate
    return None


def _centred(table: Lookup) -> NDArray[np.int64]:
    return table.entries.astype(np.int64) - table.output.zero_point


def _table(layer: Product | Rescale, table: Lookup, accumulators: NDArray[np.int64], requantize: Multiplier) -> Lookup:
    out = layer.output
    rounded = rounding_shift(accumulators * requantize.multiplier.astype(np.int64), requantize.shift) + out.zero_point
    entries = saturate(rounded, requantize.lo, requantize.hi, out.dtype)
    return Lookup(layer.name, table.input, out, entries)
