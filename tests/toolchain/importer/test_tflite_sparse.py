"""Sparse constants of TFLite files, beside matrices that they are made of by the definition of the format."""

from itertools import product
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tflite
from numpy.typing import NDArray

from edgemeta.toolchain.importer.tflite_sparse import dense

Array = NDArray[Any]
Level = tuple[int, list[int] | None, list[int] | None]
"""Places, or where the lists of each place of the level before begin, and the places in them."""


def stored(whole: Array, block: tuple[int, int]) -> tuple[list[Level], Array]:
    """A matrix by rows, of which each has a list of blocks that have a number; blocks are dense."""
    rows, columns = (side // size for side, size in zip(whole.shape, block, strict=True))
    starts, places, values = [0], [], []
    for row in range(rows):
        for column in range(columns):
            part = whole[row * block[0] : (row + 1) * block[0], column * block[1] : (column + 1) * block[1]]
            if part.any():
                places.append(column)
                values.append(part)
        starts.append(len(places))
    return [(rows, None, None), (0, starts, places), (block[0], None, None), (block[1], None, None)], np.array(values)


def record(order: list[int], blocks: list[int], levels: list[Level]) -> Any:
    build = flatbuffers.Builder(0)
    made = []
    for size, *lists in levels:
        vectors = [_vector(build, each) for each in lists if each is not None]
        tflite.DimensionMetadataStart(build)
        tflite.DimensionMetadataAddFormat(build, int(bool(vectors)))
        tflite.DimensionMetadataAddDenseSize(build, size)
        if vectors:
            tflite.DimensionMetadataAddArraySegmentsType(build, 1)
            tflite.DimensionMetadataAddArraySegments(build, vectors[0])
            tflite.DimensionMetadataAddArrayIndicesType(build, 1)
            tflite.DimensionMetadataAddArrayIndices(build, vectors[1])
        made.append(tflite.DimensionMetadataEnd(build))
    tflite.SparsityParametersStartDimMetadataVector(build, len(made))
    for each in reversed(made):
        build.PrependUOffsetTRelative(each)
    metadata = build.EndVector()
    numbers = [build.CreateNumpyVector(np.array(each, np.int32)) for each in (order, blocks)]
    tflite.SparsityParametersStart(build)
    tflite.SparsityParametersAddTraversalOrder(build, numbers[0])
    tflite.SparsityParametersAddBlockMap(build, numbers[1])
    tflite.SparsityParametersAddDimMetadata(build, metadata)
    build.Finish(tflite.SparsityParametersEnd(build))
    return tflite.SparsityParameters.GetRootAs(build.Output(), 0)


def _vector(build: Any, numbers: list[int]) -> int:
    values = build.CreateNumpyVector(np.array(numbers, np.int32))
    tflite.Int32VectorStart(build)
    tflite.Int32VectorAddValues(build, values)
    return int(tflite.Int32VectorEnd(build))


def matrix() -> Array:
    rng = np.random.default_rng(4)
    return rng.integers(1, 99, (6, 8)) * (rng.random((6, 8)) < 0.2)


@pytest.mark.parametrize("block", [(1, 1), (2, 4), (3, 2)])
def test_the_numbers_are_where_they_were(block: tuple[int, int]) -> None:
    levels, values = stored(matrix(), block)
    found = dense(tflite, record([0, 1, 2, 3], [0, 1], levels), values.ravel(), (6, 8))
    np.testing.assert_array_equal(found, matrix())


@pytest.mark.parametrize(("level", "part", "place"), list(product((1,), (1, 2), range(3))))
def test_lists_that_do_not_fit_give_nothing(level: int, part: int, place: int) -> None:
    levels, values = stored(matrix(), (1, 1))
    for number in (-5, 10**9):
        changed = [tuple(list(each) if isinstance(each, list) else each for each in some) for some in levels]
        changed[level][part][place] = number  # type: ignore[index]
        assert dense(tflite, record([0, 1, 2, 3], [0, 1], changed), values.ravel(), (6, 8)) is None  # type: ignore[arg-type]
    assert dense(tflite, record([0, 1, 2], [0, 1], levels), values.ravel(), (6, 8)) is None
    assert dense(tflite, record([0, 1, 2, 3], [0, 5], levels), values.ravel(), (6, 8)) is None
    assert dense(tflite, record([0, 1, 2, 3], [0, 1], levels), values.ravel()[:-1], (6, 8)) is None
    assert dense(tflite, record([0, 1, 2, 3], [0, 1], levels), values.ravel(), (6, 4)) is None
