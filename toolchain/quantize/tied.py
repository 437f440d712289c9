"""Which tensors may have a scale for each channel, and which of them have theirs in proportion.

Layers with weights give such a tensor, and functions behind them: each channel is requantized by itself, or has its own
table. Convolutions and dense layers read it: depthwise ones requantize each channel by itself, and the weights of the
others are multiplied by the channels' shares. What lies between passes channels: it moves or pools them, adds tensors,
or multiplies by factors. It has one rule for all channels, so the steps of its tensors are scale * share[c], with the
same shares for all of them; tensors of one quantization have the same scale, too.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Moving, Shape, Summing
from edgemeta.toolchain.quantize.blocks import Block, folded, rounded_to
from edgemeta.toolchain.quantize.sets import Sets

Numbers = NDArray[np.int32]
"""Of a tensor's channels [C]: those of one number have one share."""


@dataclass(frozen=True, eq=False)
class Tied:
    """Tensors with the same shares. kinds: those of one quantization, block -> numbers, each less than `count`.

    summed: whether layers read them that sum over channels.
    """

    kinds: tuple[Mapping[str, Numbers], ...]
    count: int
    summed: bool


def tied_tensors(
    blocks: Sequence[Block], shapes: Mapping[str, Shape], outputs: Collection[str], functions: Collection[str]
) -> tuple[Tied, ...]:
    """Of a network with these output tensors. functions: blocks that alone read what a layer with weights gives."""
    ties, kinds = (Sets([INPUT, *(block.name for block in blocks)]) for _ in range(2))
    numbers = _numbers(blocks, shapes, functions)
    readers: dict[str, list[Block]] = {name: [] for name in ties}
    for block in blocks:
        for name in block.inputs:
            readers[name].append(block)
        for name in block.core.passed:
            ties.join(name, block.name)
            if block.core.passed == block.inputs and not isinstance(block.core, Summing):  # others requantize
                kinds.join(name, block.name)
    joined = {kinds.of(each.name) for each in blocks if isinstance(each.core, Moving) and len(each.inputs) > 1}
    free = {
        block.name
        for block in blocks
        if block.name in numbers
        and block.after not in outputs
        and not (block.relu and block.relu.ceiling and kinds.of(block.name) in joined)  # which has one integer there
        and all(block.name in each.core.passed or _takes(each) for each in readers[block.name])
    }
    lost = {ties.of(name) for name in ties if name not in free}
    found: dict[str, dict[str, dict[str, Numbers]]] = {}
    for name in numbers:
        if ties.of(name) not in lost:
            found.setdefault(ties.of(name), {}).setdefault(kinds.of(name), {})[name] = numbers[name]
    summed = {ties.of(name) for name in ties for each in readers[name] if each.sums_channels}
    return tuple(_tied(list(each.values()), tie in summed) for tie, each in found.items())


def _tied(kinds: Sequence[Mapping[str, Numbers]], summed: bool) -> Tied:
    """With numbers from 0 on."""
    every = np.unique(np.concatenate([each for kind in kinds for each in kind.values()]))
    short = tuple(
        {name: np.searchsorted(every, each).astype(np.int32) for name, each in kind.items()} for kind in kinds
    )
    return Tied(short, len(every), summed)


def _takes(block: Block) -> bool:
    """Whether a layer with weights takes an input with a scale for each channel."""
    return block.is_depthwise or (block.sums_channels and rounded_to(folded(block)[0]) is None)


def _numbers(blocks: Sequence[Block], shapes: Mapping[str, Shape], functions: Collection[str]) -> dict[str, Numbers]:
    """By block, of those that are known."""
    shape = {INPUT: shapes[INPUT]} | {block.name: shapes[block.after] for block in blocks}
    numbers: dict[str, Numbers] = {}
    alike = Sets(range(sum(each[2] for each in shape.values())))
    first = 0
    for block in blocks:
        passed = block.core.passed
        if block.has_weights or block.name in functions:
            numbers[block.name] = np.arange(first, first := first + shape[block.name][2], dtype=np.int32)
        elif passed and all(name in numbers for name in passed):
            every = [numbers[name] for name in passed]
            if isinstance(block.core, Moving):
                moved = _moved(block.core, every, [shape[name] for name in passed])
                if moved is None:
                    continue
                every = [moved]
            for other in every[1:]:
                for pair in zip(every[0].tolist(), other.tolist(), strict=True):
                    alike.join(*pair)
            numbers[block.name] = every[0]
    return {name: np.array([alike.of(number) for number in each.tolist()], np.int32) for name, each in numbers.items()}


def _moved(core: Moving, numbers: Sequence[Numbers], shapes: Sequence[Shape]) -> Numbers | None:
    """The numbers of a layer's output [C']; None if one of its channels has elements of several of the inputs'."""
    nothing = -1
    moved = core.move(
        *(np.broadcast_to(each, (1, *shape)) for each, shape in zip(numbers, shapes, strict=True)), fill=nothing
    )
    found: Numbers = moved.max((0, 1, 2))
    return found if ((moved == found) | (moved == nothing)).all() and found.min() > nothing else None
