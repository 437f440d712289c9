"""What moving layers take from where: by their own `move`; in the library without a change of it."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from edgemeta.kernels.lowering import plan_bytes
from edgemeta.kernels.lowering.gather import Gather, gather_of
from edgemeta.model import reference
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Conv, Moving, Shape, TensorType
from edgemeta.plugins.registry import choose
from tests.conformance.cases import CASES
from tests.conformance.networks import NetworkBuilder, assert_equal_outputs
from tests.kernels.lowering.test_plan_bytes import error_of

KIND = TensorType((4, 6, 24), zero_point=7)
MOVING = [
    (layer, case.model.types[layer.sources[0]].shape)
    for case in CASES
    for layer in case.model.layers
    if isinstance(layer, Moving) and len(layer.sources) == 1
]


@dataclass(frozen=True)
class Unknown(Moving):
    """A layer that no backend has heard of. body: its `move` of [N, H, W, C]."""

    name: str
    input: str
    output: TensorType
    body: Callable[[Any], Any]

    def move(self, *values: Any, fill: float) -> Any:
        return self.body(values[0])


def depth_to_space(x: Any) -> Any:
    images, height, width, channels = x.shape
    blocks = x.reshape(images, height, width, 2, 2, channels // 4).transpose(0, 1, 3, 2, 4, 5)
    return blocks.reshape(images, 2 * height, 2 * width, channels // 4)


def space_to_depth(x: Any) -> Any:
    images, height, width, channels = x.shape
    blocks = x.reshape(images, height // 2, 2, width // 2, 2, channels).transpose(0, 1, 3, 2, 4, 5)
    return blocks.reshape(images, height // 2, width // 2, 4 * channels)


BODIES: dict[str, tuple[Callable[[Any], Any], Shape]] = {
    "depth to space": (depth_to_space, (8, 12, 6)),
    "space to depth": (space_to_depth, (2, 3, 96)),
    "transposed": (lambda x: x.transpose(0, 2, 1, 3), (6, 4, 24)),
    "channels as rows": (lambda x: x.transpose(0, 3, 2, 1), (24, 6, 4)),
    "all three turned over": (lambda x: x[:, ::-1, ::-1, ::-1], (4, 6, 24)),
    "rolled": (lambda x: np.roll(x, (1, 2, 5), (1, 2, 3)), (4, 6, 24)),
    "repeated": (lambda x: x[:, [3, 3, 0]][:, :, [5, 1, 1, 1, 2]][..., [9] * 17], (3, 5, 17)),
}


def taken(gather: Gather, x: Any, fill: int) -> Any:
    """Element by element, as the class says."""
    expected = np.full((len(gather.rows), len(gather.columns), len(gather.channels)), fill, x.dtype)
    for y, x_, c in np.ndindex(expected.shape):
        if gather.rows[y] >= 0 and gather.columns[x_] >= 0:
            expected[y, x_, c] = x.ravel()[gather.rows[y] + gather.columns[x_] + gather.channels[c]]
    return expected


def test_every_moving_layer_of_the_conformance_table_is_a_gather() -> None:
    assert len({type(layer) for layer, _ in MOVING}) == 5  # one concatenation joins a single tensor
    for layer, shape in MOVING:
        x = np.arange(np.prod(shape)).reshape(1, *shape)
        gather = gather_of(layer, shape)
        assert gather is not None
        np.testing.assert_array_equal(taken(gather, x[0], -9), layer.move(x, fill=-9)[0])


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("isa", ["auto", "portable"])
def test_a_layer_that_nobody_has_heard_of_runs_in_the_library(name: str, isa: str) -> None:
    body, shape = BODIES[name]
    net = NetworkBuilder(name.replace(" ", "-"), KIND)
    layer: Any = Unknown("unknown", net.conv(net.start, 24, output=KIND), replace(KIND, shape=shape), body)
    case = net.observe(net.append(layer))
    with closing(choose("cpu").compile(case.model, {"isa": isa})) as session:
        for batch_name, batch in case.batches():
            assert_equal_outputs(session.run(batch), reference.run(case.model, batch), batch_name)


@pytest.mark.parametrize(
    "body",
    [
        lambda x: x.reshape(1, 6, 4, 24),
        lambda x: np.where(np.arange(6)[:, np.newaxis] < 2, x, x[:, ::-1]),
        lambda x: np.concatenate([x[..., :3], np.full_like(x[..., 3:], -1)], axis=3),
        lambda x: np.full_like(x, -1),
    ],
    ids=["runs over the ends of rows", "rows that depend on columns", "channels that are filled", "nothing"],
)
def test_other_layers_are_none(body: Callable[[Any], Any]) -> None:
    assert gather_of(Unknown("unknown", INPUT, KIND, body), (4, 6, 24)) is None  # type: ignore[arg-type]


def test_layers_that_compute_or_join_are_none() -> None:
    case = next(case for case in CASES if case.name == "concat-16-32-16")
    for layer in case.model.layers:
        assert gather_of(layer, case.model.types[layer.sources[0]].shape) is None
    assert any(isinstance(layer, Conv) for layer in case.model.layers)


def line(*values: int) -> Any:
    return np.array(values, np.int32)


@pytest.mark.parametrize(
    ("gather", "sentence"),
    [
        (Gather(line(0, 8), line(0, 2), line(0, 16)), "the channels is 16, expected 0 .. 15"),
        (Gather(line(0, -2), line(0, 2), line(0, 1)), "the rows is -2, expected -1 .. 15"),
        (Gather(line(0, 8), line(0, 2), line(-1, 1)), "the channels is -1, expected 0 .. 15"),
        (Gather(line(0, 8, 8), line(0, 2), line(0, 1)), "the rows has 3 values, expected 2"),
        (Gather(line(0, 8), line(0, 7), line(0, 1)), "an element lies beyond the input"),
        (Gather(line(-1, 8), line(0, 8), line(0, 1)), "an element lies beyond the input"),
        (Gather(line(-1, -1), line(6, 2), line(0, 1)), ""),
    ],
)
def test_the_library_proves_what_it_is_told(gather: Gather, sentence: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An input [2, 4, 2], of which every second column is taken."""
    net = NetworkBuilder("two", replace(KIND, shape=(2, 4, 3)))
    source = net.conv(INPUT, 2, output=replace(KIND, shape=(1, 1, 1)))
    model = net.observe(net.slice(source, (0, 0, 0), (2, 4, 2), (1, 2, 1))).model
    monkeypatch.setattr(plan_bytes, "gather_of", lambda *_: gather)
    assert error_of(plan_bytes.plan_bytes(model, 0, {})) == (sentence and f"layer 'slice1': {sentence}")
