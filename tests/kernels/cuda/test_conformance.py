"""The conformance table on the lowered kernels, run on the CPU: equal bit for bit.

In forward, reverse and shuffled order of threads. Every case runs on one architecture, drawn by its name, so that both
inner loops (16-bit multiply-adds and dp4a) see about half of the table; the slow test runs the other half. Five
of six cases are for the gate.
"""

import zlib
from typing import get_args

import numpy as np
import pytest

from edgemeta.kernels.cuda.lowering import lower, unsupported
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model import reference
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import AveragePool, Constant, Layer, MatMul, Normalize, Softmax, TensorType
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import NetworkBuilder, assert_equal_outputs
from tests.conformance.random_networks import COMMON, random_network
from tests.emulation.executor import Emulator, Order
from tests.parts import Marks, by_name, in_parts

NAMES = ("sm_53", "sm_87")
SMALL = [
    *(case for case in CASES if not case.name.startswith("resnet8")),
    *(random_network(COMMON.index(kind), COMMON) for kind in ("affine", "depth-to-space", "rearrange", "take")),
]
"""The table has no case of layers that came after it; these networks begin with one."""


GATE = pytest.mark.gate("90 s of processor time in all: the kernels of most of the table are compiled")


def drawn(case: Case) -> int:
    return zlib.crc32(case.name.encode()) % 2


FIRST = {type(layer): case.name for case in SMALL[::-1] for layer in case.model.layers}
"""The first case of each kind of layer."""


QUICK = {case.name for case in SMALL[::6]} | set(FIRST.values())


def marks_of(name: str) -> Marks:
    """Five of six are for the gate, but not the first case of a kind of layer."""
    return () if name in QUICK else (GATE,)


def test_every_layer_is_supported() -> None:
    """Asked about every layer of the table and of random networks, fused or not."""
    for case in (*CASES, *(random_network(number, COMMON) for number in range(100))):
        types = case.model.types
        for layer in case.model.layers:
            assert unsupported(layer, [types[name] for name in layer.sources]) is None, (case.name, layer.name)


def assert_equal(case: Case, architecture: str) -> None:
    plan = lower(case.model, ARCHITECTURES[architecture])
    orders: tuple[Order, ...] = ("forward", "reverse", 7)
    emulators = [Emulator(plan, order, mode="quick") for order in orders]
    for name, batch in case.batches():
        outputs = reference.run(case.model, batch)
        for emulator in emulators:
            assert_equal_outputs(emulator.run(batch), outputs, name)


def test_every_kind_of_layer_has_quick_cases() -> None:
    """But those that no kernel has."""
    assert set(FIRST) == set(get_args(Layer)) - {Constant, MatMul, Normalize, Softmax}


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
        AveragePool(
            "pool",
            "conv0",
            output,
            kernel=(1, 1),
            stride=(1, 1),
            requantize=net.requantize("table-per-layer", np.ones(1), output),
        )
    )
    return net.finish().model


@in_parts(by_name(SMALL), 16, marks_of, keeps_verdicts=True)
def test_a_case_equals_the_reference(case: Case) -> None:
    assert_equal(case, NAMES[drawn(case)])


@pytest.mark.slow
@in_parts(by_name(CASES), 16, keeps_verdicts=True)
def test_a_case_equals_the_reference_on_the_other_architecture(case: Case) -> None:
    assert_equal(case, NAMES[1 - drawn(case)])
