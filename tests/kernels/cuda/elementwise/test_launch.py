"""Layers that no convolution took in, with every access checked: equal to the reference bit for bit."""

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
from tests.conformance.networks import Form, NetworkBuilder
from tests.emulation.executor import Emulator

KERNELS = (direct, pool_dense, elementwise)
FORMS: tuple[Form, ...] = ("multiplier", "table", "table-per-layer")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("is_signed", [True, False], ids=["signed", "unsigned"])
def test_rescale_clamp_and_add_in_a_chain(form: Form, is_signed: bool) -> None:
    """On packed, ringed and plain buffers of odd sizes; every tensor has a second reader, so nothing is fused."""
    net = NetworkBuilder(f"elementwise-{form}-{is_signed}", TensorType((5, 7, 3), signed=is_signed, zero_point=60))
    rescaled = net.rescale(INPUT, TensorType((1, 1, 1), signed=not is_signed, zero_point=11), form)
    clamped = net.clamp(rescaled, 12, 90)
    added = net.add(clamped, rescaled, multipliers=(2_000_000, 77_777), shift=20, zero_point=3)
    conv = net.conv(added, 3, (3, 3))
    case = net.observe(net.add(conv, added, multipliers=(1, 1), shift=0))
    plan = lower(case.model, ARCHITECTURES["sm_53"], kernels=KERNELS)
    assert [launch.source.entry for launch in plan.launches[:3]] == ["elementwise"] * 3
    emulator = Emulator(plan, mode="checked")
    for name, batch in case.batches():
        np.testing.assert_array_equal(emulator.run(batch)[0], reference.run(case.model, batch)[0], err_msg=name)
