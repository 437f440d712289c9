"""Layers that copy elements, with every access checked: equal to the reference bit for bit."""

from dataclasses import replace
from typing import Any

import pytest

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from edgemeta.model.tasks import Embedding
from tests.conformance.networks import NetworkBuilder
from tests.kernels.cuda.one_layer import assert_exact
from tests.kernels.lowering.test_gather import BODIES, Unknown

NONE = (0, 0, 0, 0)
KIND = TensorType((1, 1, 1), zero_point=11)


def test_a_concatenation_of_many_parts_that_share_words() -> None:
    """Parts of 1 to 6 channels: words of two parts, words of three, and words of one."""
    net = NetworkBuilder("parts", TensorType((5, 3, 3), zero_point=11))
    parts = [net.conv(INPUT, channels, (1, 1), padding=NONE, output=KIND) for channels in (1, 1, 5, 4, 2, 6)]
    joined = net.concat(*parts, INPUT, parts[2])
    plan = assert_exact(net.observe(net.concat(joined, net.conv(joined, 4, output=KIND))))
    starts = dict(plan.launches[6].source.defines)
    assert [starts[f"FIRST{n}"] for n in range(8)] == [0, 1, 2, 7, 11, 13, 19, 22]
    assert [starts[f"ALIGNED{n}"] for n in range(8)] == [0] * 8
    assert plan.launches[6].grid == (8, 1)


def test_parts_of_more_than_a_block_whose_last_is_packed() -> None:
    net = NetworkBuilder("blocks", TensorType((11, 13, 3), zero_point=11))
    wide, narrow = (net.conv(INPUT, channels, (1, 1), padding=NONE, output=KIND) for channels in (8, 3))
    plan = assert_exact(net.finish_as(Embedding(), net.concat(wide, narrow)))
    assert plan.launches[2].grid == (3 + 2, 1)


def test_slices_upsampled_padded_and_shuffled() -> None:
    net = NetworkBuilder("copies", TensorType((6, 5, 3), signed=False, zero_point=200))
    thin = net.slice(INPUT, (1, 0, 1), (6, 5, 3), (2, 3, 1))
    large = net.upsample(thin, (2, 3))
    wide = net.conv(large, 12, (3, 3), output=TensorType((1, 1, 1), signed=False, zero_point=7))
    mixed = net.shuffle(net.shuffle(wide, 3), 2)
    spread = net.pad(mixed, (0, 2, 3, 1), (1, 2))
    plan = assert_exact(net.observe(net.slice(spread, (2, 1, 2), (8, 11, 12), (1, 2, 3))))
    assert [launch.source.entry for launch in plan.launches].count("rearrange") == 6


@pytest.mark.parametrize("name", ["depth to space", "space to depth", "rolled"])
def test_a_layer_that_nobody_has_heard_of(name: str) -> None:
    """Words, words at channels of another pixel, and bytes."""
    body, shape = BODIES[name]
    net = NetworkBuilder(name.replace(" ", "-"), TensorType((4, 6, 3), zero_point=11))
    layer: Any = Unknown(
        "unknown", net.conv(INPUT, 24, (1, 1), padding=NONE, output=KIND), replace(KIND, shape=shape), body
    )
    assert_exact(net.observe(net.append(layer)))


def test_a_slice_that_begins_inside_of_a_word_and_of_an_image() -> None:
    net = NetworkBuilder("inside", TensorType((4, 5, 3), zero_point=11))
    wide = net.conv(INPUT, 13, (1, 1), padding=NONE, output=KIND)
    parts = [net.slice(wide, (1, 0, first), (4, 5, 13)) for first in (4, 6)]
    plan = assert_exact(net.observe(net.concat(*parts, net.slice(INPUT, (1, 0, 2), (4, 5, 3)))))
    words = [dict(launch.source.defines).get("WORDS") for launch in plan.launches]
    assert words[1:4] == [1, 0, 0]
