"""Puts numbers into a file's own decoding and looks at what comes out of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from numpy.typing import NDArray

from edgemeta.tasks.numbers import Float64, sigmoid
from edgemeta.toolchain.importer.heads.ends import End, HeadError
from edgemeta.toolchain.importer.heads.operators import CONVOLUTIONS
from edgemeta.toolchain.importer.heads.tail import MAX_ELEMENTS, Tail
from edgemeta.toolchain.importer.network import Array, Network

_SAME = 1e-9
"""Numbers that differ by no more, of the greater one, did not follow from what was changed."""


@dataclass(frozen=True, eq=False)
class Response:
    """What numbers of a tensor, as of a box, are if the numbers of one candidate are 0, and if they are `numbers`.

    is_output: whether the tensor is one of the file's outputs.
    """

    numbers: Float64
    zero: Float64
    found: Float64
    is_output: bool


def scales_pixels(graph: Network) -> bool:
    """Whether the file itself brings pixels of 0 .. 255 to a smaller range, before its first convolution."""
    _, channels, height, width = graph.input_shape
    if prod(graph.input_shape) > MAX_ELEMENTS:
        return False
    first = next((i for i, node in enumerate(graph.nodes) if node.op in CONVOLUTIONS and node.inputs), None)
    if first is None:
        return False
    shape = (1, channels, height, width) if graph.input_order == "chw" else (1, height, width, channels)
    tail = Tail(replace(graph, nodes=graph.nodes[:first]), [graph.input])
    black, white = (tail.run({graph.input: np.full(shape, value)}) for value in (0.0, 255.0))
    read = graph.nodes[first].inputs[0]
    return (
        read in black
        and read in white
        and black[read].shape == white[read].shape
        and bool(np.abs(white[read] - black[read]).max() < 255 / 10)
    )


class Probe:
    """The decoding of a file, fed with random numbers of a fixed seed, -1 .. 1, in the place of its convolutions."""

    def __init__(self, graph: Network, ends: Sequence[End]) -> None:
        """Raises HeadError for convolutions that are too large for a decoding."""
        if sum(prod(end.shape) for end in ends) > MAX_ELEMENTS:
            raise HeadError(f"its last convolutions have more than {MAX_ELEMENTS} numbers")
        self._tail = Tail(graph, [end.tensor for end in ends])
        self._outputs = graph.outputs
        finest = max(ends, key=lambda end: end.shape[0] * end.shape[1])
        is_alone = sum(end.shape[:2] == finest.shape[:2] for end in ends) == 1 < len(ends)
        self.prototypes = finest.shape[2] if is_alone else None
        """Channels of the only convolution of the finest grid, as that of the prototypes of masks is."""
        self.image = graph.input_shape[2:]
        self.is_rounded = bool(graph.quantization)
        rng = np.random.default_rng(38)
        self._values = {end.tensor: rng.uniform(-1, 1, _stored(end)) for end in ends}
        self._base = self._tail.run(self._values)
        self._seen: dict[object, list[Response]] = {}

    def responses(self, end: End, cell: tuple[int, int], channels: Sequence[int], count: int = 4) -> list[Response]:
        """`count` elements of tensors that follow from these numbers of a cell (row, column), the last ones first."""
        key = (end.tensor, cell, tuple(channels), count)
        if key not in self._seen:
            made, numbers = self._changed(end, cell, channels, 0.0)
            self._seen[key] = [
                Response(numbers, made[name].ravel()[places], self._base[name].ravel()[places], name in self._outputs)
                for name, places in reversed(list(self._differences(made)))
                if len(places) == count
            ]
        return self._seen[key]

    def is_score(self, end: End, channel: int = 0) -> bool:
        """Whether a number is a score of its own: somewhere its sigmoid is what alone follows from it."""
        made, (number,) = self._changed(end, (0, 0), [channel], 0.0)
        wanted = 1 / (1 + np.exp(-number))
        return any(
            len(places) == 1 and np.isclose(self._base[name].ravel()[places[0]], wanted)
            for name, places in self._differences(made)
        )

    def kept(self, end: End) -> NDArray[np.bool_]:
        """Which channels [C] of a convolution are in the outputs as they are; the others went through a function."""
        numbers, together = self._seen_of(end)
        kept: NDArray[np.bool_] = np.isin(numbers, together)
        return kept

    def factor(self, end: End, channels: Sequence[int]) -> float | None:
        """By what the four box numbers of a candidate are multiplied in the outputs; None if they are not there."""
        for response in self.responses(end, (0, 0), channels):
            with np.errstate(all="ignore"):
                factors = response.found / response.numbers
            if (
                response.is_output
                and not response.zero.any()
                and np.ptp(factors) <= 1e-6 * abs(factors[0])
                and factors[0] > 0
            ):
                return float(factors[0])
        return None

    def shown(self, end: End) -> NDArray[np.bool_]:
        """Which channels [C] of a convolution are in the outputs as they are, or as their sigmoids."""
        numbers, together = self._seen_of(end)
        shown: NDArray[np.bool_] = np.isin(numbers, together) | np.isin(sigmoid(numbers), together)
        return shown

    def _seen_of(self, end: End) -> tuple[Float64, Float64]:
        """The numbers of the first cell, and all elements of the outputs that follow from them."""
        made, numbers = self._changed(end, (0, 0), range(end.shape[2]), 0.0)
        seen = [self._base[name].ravel()[places] for name, places in self._differences(made) if name in self._outputs]
        return numbers, np.concatenate([np.empty(0), *seen])

    def follows(self, end: End) -> bool:
        """Whether something of the outputs could be computed from a convolution."""
        made, _ = self._changed(end, (0, 0), range(end.shape[2]), 0.0)
        return any(name in self._outputs for name in made)

    def obstacle(self) -> str:
        """The first operation behind the convolutions that could not be computed."""
        return next((node.place for node in self._tail.nodes if node.outputs[0] not in self._base), "its end")

    def _changed(
        self, end: End, cell: tuple[int, int], channels: Sequence[int], value: float
    ) -> tuple[dict[str, Array], Float64]:
        """The tensors that follow if these numbers of a cell have one value, and the numbers they have otherwise."""
        values = self._values[end.tensor].copy()
        row, column = cell
        place = (0, row, column, list(channels)) if end.channels_last else (0, list(channels), row, column)
        numbers = values[place].copy()
        values[place] = value
        return self._tail.run({end.tensor: values}, {**self._base, **self._values}), numbers

    def _differences(self, made: dict[str, Array]) -> Iterator[tuple[str, NDArray[np.int64]]]:
        """Tensors and which of their elements, counted through, are others than with the random numbers."""
        for name, value in made.items():
            base = self._base.get(name)
            if base is not None and base.shape == value.shape:
                places = (base != value).ravel().nonzero()[0]  # few, also of a damaged file's millions
                before, after = base.ravel()[places], value.ravel()[places]
                with np.errstate(all="ignore"):
                    is_same = np.abs(before - after) <= _SAME * np.maximum(np.abs(before), np.abs(after))
                yield name, places[~is_same]


def _stored(end: End) -> tuple[int, ...]:
    height, width, channels = end.shape
    return (1, height, width, channels) if end.channels_last else (1, channels, height, width)
