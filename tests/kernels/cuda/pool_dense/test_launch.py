"""Global pools and dense layers of odd sizes, with every access checked: equal to the reference bit for bit."""

from functools import partial

import numpy as np
import pytest

from edgemeta.kernels.cuda.direct.launch import candidates as direct
from edgemeta.kernels.cuda.elementwise.launch import candidates as elementwise
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.pool_dense.launch import candidates as pool_dense
from edgemeta.model import reference
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import TensorType
from tests.conformance.networks import Case, NetworkBuilder
from tests.emulation.executor import Emulator

SM_53 = ARCHITECTURES["sm_53"]
KERNELS = (direct, pool_dense, elementwise)


def assert_equal(case: Case, launches: list[tuple[str, ...]]) -> None:
    plan = lower(case.model, SM_53, kernels=KERNELS)
    assert [launch.layers for launch in plan.launches] == launches
    for order in ("forward", 5):
        emulator = Emulator(plan, order, "checked")
        for name, batch in case.batches():
            np.testing.assert_array_equal(emulator.run(batch)[0], reference.run(case.model, batch)[0], err_msg=name)


@pytest.mark.parametrize("shape", [(1, 1, 3), (7, 5, 3), (3, 2, 1)], ids=str)
def test_pool_and_dense_of_the_image(shape: tuple[int, int, int]) -> None:
    net = NetworkBuilder(f"pool-dense-{shape}", TensorType(shape, signed=False, zero_point=77))
    net.dense(net.average(INPUT, shape[:2]), 5)
    assert_equal(net.finish(), [("average0", "dense1")])


@pytest.mark.parametrize("shape", [(28, 28, 1), (5, 7, 1), (3, 2, 1), (4, 4, 3), (3, 5, 3), (1, 1, 3)], ids=str)
def test_dense_of_the_image(shape: tuple[int, int, int]) -> None:
    """The image has no padding: rows and pixels begin at any byte."""
    net = NetworkBuilder(f"dense-{shape}", TensorType(shape, signed=False, zero_point=77))
    net.dense(net.dense(INPUT, 9, form="multiplier"), 5)
    assert_equal(net.finish(), [("dense0",), ("dense1",)])


@pytest.mark.gate("2 s of processor time")
def test_a_pool_of_many_channels_alone() -> None:
    """More channels than threads, and an int8 output that leaves the network."""
    net = NetworkBuilder("pool", TensorType((3, 3, 3)))
    wide = net.conv(INPUT, 1030, (1, 1), padding=(0, 0, 0, 0), output=TensorType((1, 1, 1), zero_point=-4))
    net.average(wide, (3, 3), form="table")
    assert_equal(net.finish(), [("conv0",), ("average1",)])


def test_dense_layers_of_every_width_of_weights() -> None:
    """int8, int16 and int32 weights, on a map with a ring that another reader wants."""
    net = NetworkBuilder("dense", TensorType((4, 3, 3)))
    shared = net.conv(INPUT, 6, (1, 1), padding=(0, 0, 0, 0))
    padded = net.conv(shared, 2, (3, 3))
    del padded
    first = net.dense(shared, 37, form="multiplier", output=TensorType((1, 1, 1), zero_point=5))
    second = net.dense(first, 18, form="table", weights=partial(net.binary, bases=8))
    net.dense(second, 3, weights=partial(net.power_of_two, bits=5))
    case = net.finish()
    sizes = [
        dict(launch.source.defines).get("WEIGHT_BYTES") for launch in lower(case.model, SM_53, kernels=KERNELS).launches
    ]
    assert sizes == [None, None, 1, 2, 2]
    assert_equal(case, [("conv0",), ("conv1",), ("dense2",), ("dense3",), ("dense4",)])
