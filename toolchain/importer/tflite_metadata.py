"""What TFLite's metadata says of the pixels: the schema package has no records for it, so its tables are read here.

Places of fields are those of metadata_schema.fbs of TFLite Support.
"""

import math
import struct
from collections.abc import Iterator
from typing import Any

METADATA = b"TFLITE_METADATA"
"""Of the buffer that holds it."""
_SUBGRAPHS, _INPUTS, _PROCESS_UNITS = 3, 2, 4
_OPTIONS_TYPE, _OPTIONS, _NORMALIZATION = 0, 1, 1
_MEAN, _DEVIATION = 0, 1
_MOST = 16
"""Units of an input, and numbers of one, that are read."""


def stored_pixels(data: bytes) -> dict[str, tuple[float, ...]]:
    """`mean` and `deviation` of the first input's NormalizationOptions; {} where there are none, or damaged ones."""
    try:
        return _normalization(data)
    except (struct.error, LookupError, OverflowError, TypeError, ValueError):
        return {}


def _normalization(data: bytes) -> dict[str, tuple[float, ...]]:
    from flatbuffers import encode, packer
    from flatbuffers.table import Table

    model = Table(data, encode.Get(packer.uoffset, data, 0))
    for graph in _tables(model, _SUBGRAPHS, 1):
        for image in _tables(graph, _INPUTS, 1):
            for unit in _tables(image, _PROCESS_UNITS, _MOST):
                kind, place = _field(unit, _OPTIONS_TYPE), _field(unit, _OPTIONS)
                if kind and place and data[kind] == _NORMALIZATION:
                    options = Table(data, unit.Indirect(place))
                    mean, deviation = _floats(options, _MEAN), _floats(options, _DEVIATION)
                    if mean and deviation and all(map(math.isfinite, mean + deviation)) and min(deviation) > 0:
                        return {"mean": mean, "deviation": deviation}
    return {}


def _field(table: Any, number: int) -> int:
    """The place of a field, 0 where the table has none."""
    offset = table.Offset(4 + 2 * number)
    return int(table.Pos + offset) if offset else 0


def _tables(table: Any, number: int, most: int) -> Iterator[Any]:
    """The first tables of a field's vector."""
    from flatbuffers.table import Table

    if not _field(table, number):
        return
    offset = table.Offset(4 + 2 * number)
    start = table.Vector(offset)
    for i in range(min(table.VectorLen(offset), most)):
        yield Table(table.Bytes, table.Indirect(start + 4 * i))


def _floats(table: Any, number: int) -> tuple[float, ...]:
    from flatbuffers.number_types import Float32Flags

    offset = table.Offset(4 + 2 * number)
    if not offset or table.VectorLen(offset) > _MOST:
        return ()
    start = table.Vector(offset)
    return tuple(float(table.Get(Float32Flags, start + 4 * i)) for i in range(table.VectorLen(offset)))
