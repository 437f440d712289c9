"""The conformance table on the lowered kernels, run on the CPU: equal bit for bit, or refused as docs/backends.md says.

In forward, reverse and shuffled order of threads. Every case runs on one architecture, drawn by its name, so that both
inner loops (16-bit multiply-adds and dp4a) see about half of the table; the slow test runs the other half. Five
of six cases are for the gate.
"""

import re
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from edgemeta.kernels.cuda.lowering import lower, unsupported
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import UnsupportedError
from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import (
    Add,
    AveragePool,
    ChannelShuffle,
    Clamp,
    Concat,
    Conv,
    Dense,
    Layer,
    Lookup,
    MaxPool,
    Pad,
    Product,
    Rescale,
    ResizeBilinear,
    Shape,
    Slice,
    TensorType,
    Upsample,
    inputs_of,
)
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import NetworkBuilder, assert_equal_outputs
from tests.conformance.random_networks import random_network
from tests.emulation.executor import Emulator, Order

NAMES = ("sm_53", "sm_87")
SMALL = [case for case in CASES if not case.name.startswith("resnet8")]


def is_plain(layer: Layer) -> bool:
    """A convolution of one group and no dilation."""
    return isinstance(layer, Conv) and layer.groups == 1 and layer.dilation == (1, 1)


def is_wide(layer: Layer) -> bool:
    """Weights of more than 16 bits."""
    assert isinstance(layer, Conv)
    return int(np.abs(layer.weights.decode()).max()) > np.iinfo(np.int16).max


ROWS: Mapping[str, Callable[[Layer, Shape], bool]] = {
    "conv of one group, weights of at most 16 bits": lambda layer, _: is_plain(layer) and not is_wide(layer),
    "conv of one group, weights of more bits (binary bases)": lambda layer, _: is_plain(layer) and is_wide(layer),
    "conv of several groups, depthwise included": lambda layer, _: (
        isinstance(layer, Conv) and layer.groups > 1 and layer.dilation == (1, 1)
    ),
    "conv with dilation": lambda layer, _: isinstance(layer, Conv) and layer.dilation != (1, 1),
    "dense, weights of any encoding": lambda layer, _: isinstance(layer, Dense),
    "add": lambda layer, _: isinstance(layer, Add),
    "clamp": lambda layer, _: isinstance(layer, Clamp),
    "rescale": lambda layer, _: isinstance(layer, Rescale),
    "average pool over the whole map": lambda layer, source: (
        isinstance(layer, AveragePool) and layer.kernel == source[:2] and not any(layer.padding)
    ),
    "average pool over less, or padded": lambda layer, source: (
        isinstance(layer, AveragePool) and (layer.kernel != source[:2] or any(layer.padding))
    ),
    "max pool": lambda layer, _: isinstance(layer, MaxPool),
    "concat": lambda layer, _: isinstance(layer, Concat),
    "upsample": lambda layer, _: isinstance(layer, Upsample),
    "lookup: a table for a function of one element": lambda layer, _: isinstance(layer, Lookup),
    "product of two tensors, or with one factor per channel": lambda layer, _: isinstance(layer, Product),
    "pad, with spacing (transposed convolutions)": lambda layer, _: isinstance(layer, Pad),
    "slice": lambda layer, _: isinstance(layer, Slice),
    "channel shuffle": lambda layer, _: isinstance(layer, ChannelShuffle),
    "bilinear resize": lambda layer, _: isinstance(layer, ResizeBilinear),
}
"""Rows of the table in docs/backends.md: which layers belong to each, by layer and shape of its first input."""


GATE = pytest.mark.gate("40 s of processor time in all: the kernels of most of the table are compiled")


def drawn(case: Case) -> int:
    return zlib.crc32(case.name.encode()) % 2


def row_of(layer: Layer, model: Model) -> str:
    """The one row of the page that a layer belongs to."""
    shapes = {INPUT: model.input.shape} | {each.name: each.output.shape for each in model.layers}
    (row,) = [name for name, takes in ROWS.items() if takes(layer, shapes[inputs_of(layer)[0]])]
    return row


def is_for_the_gate(case: Case) -> bool:
    """Five of six, but not the first case of a row."""
    return SMALL.index(case) % 6 != 0 and case.name not in FIRST.values()


FIRST = {row_of(layer, case.model): case.name for case in SMALL[::-1] for layer in case.model.layers}
"""The first case of each row, by the row."""


@pytest.fixture(scope="module")
def has_kernel(repository: Path) -> Mapping[str, bool]:
    """The column `cuda` of the page's table, by row."""
    page = (repository / "docs" / "backends.md").read_text("utf-8")
    cells = re.findall(r"^\| (.+?) \| yes \| yes \| (yes|no) \|$", page, re.M)  # reference, cpu, cuda
    assert [name for name, _ in cells] == list(ROWS)
    return {name: cuda == "yes" for name, cuda in cells}


def test_supported_is_what_the_page_says(has_kernel: Mapping[str, bool]) -> None:
    """Asked about every layer of the table and of random networks, fused or not."""
    for case in (*CASES, *map(random_network, range(100))):
        types = {INPUT: case.model.input} | {layer.name: layer.output for layer in case.model.layers}
        for layer in case.model.layers:
            reason = unsupported(layer, [types[name] for name in inputs_of(layer)])
            assert (reason is None) == has_kernel[row_of(layer, case.model)], (case.name, layer.name, reason)
            assert reason is None or reason.endswith("is not supported") or "is not supported, expected" in reason


def assert_equal(case: Case, architecture: str, has_kernel: Mapping[str, bool]) -> None:
    """Equal to the reference, or refused: exactly where a layer has no kernel by the page, and by that layer's name."""
    without = [layer.name for layer in case.model.layers if not has_kernel[row_of(layer, case.model)]]
    if without:
        with pytest.raises(UnsupportedError, match=f"layer '({'|'.join(without)})'"):
            lower(case.model, ARCHITECTURES[architecture])
        return
    plan = lower(case.model, ARCHITECTURES[architecture])
    orders: tuple[Order, ...] = ("forward", "reverse", 7)
    emulators = [Emulator(plan, order, mode="quick") for order in orders]
    for name, batch in case.batches():
        outputs = reference.run(case.model, batch)
        for emulator in emulators:
            assert_equal_outputs(emulator.run(batch), outputs, name)


def test_every_row_of_the_page_has_cases() -> None:
    for cases in (CASES, [case for case in SMALL if not is_for_the_gate(case)]):
        assert {row_of(layer, case.model) for case in cases for layer in case.model.layers} == set(ROWS)


@pytest.mark.parametrize("architecture", ["sm_53", "sm_62"])
def test_the_channels_of_a_pool_over_the_whole_map(architecture: str) -> None:
    """As many as the page says, and not four more."""
    fitting, beyond = (pool_of(channels) for channels in (6144, 6148))
    assert lower(fitting, ARCHITECTURES[architecture]).launches
    with pytest.raises(UnsupportedError, match=r"layer 'pool': no kernel fits into the 49152 bytes of shared memory"):
        lower(beyond, ARCHITECTURES[architecture])


def pool_of(channels: int) -> Model:
    net = NetworkBuilder(f"pool-{channels}", TensorType((1, 1, 3)))
    net.conv(INPUT, channels, (1, 1), padding=(0, 0, 0, 0), form="table-per-layer")  # no line per channel to prove
    output = TensorType((1, 1, channels))
    net.append(
        AveragePool("pool", "conv0", output, (1, 1), (1, 1), net.requantize("table-per-layer", np.ones(1), output))
    )
    return net.finish().model


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=case.name, marks=[GATE] if is_for_the_gate(case) else []) for case in SMALL]
)
def test_a_case_equals_the_reference(case: Case, has_kernel: Mapping[str, bool]) -> None:
    assert_equal(case, NAMES[drawn(case)], has_kernel)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_case_equals_the_reference_on_the_other_architecture(case: Case, has_kernel: Mapping[str, bool]) -> None:
    assert_equal(case, NAMES[1 - drawn(case)], has_kernel)
