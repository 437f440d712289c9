"""Pools over windows, with every access checked: equal to the reference bit for bit."""

import pytest

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import MaxPool, TensorType
from edgemeta.model.tasks import Embedding
from tests.conformance.networks import Form, NetworkBuilder
from tests.kernels.cuda.one_layer import assert_exact

FORMS: tuple[Form, ...] = ("multiplier", "table")


@pytest.mark.parametrize("is_signed", [True, False], ids=["signed", "unsigned"])
def test_max_pools_of_the_image_and_of_a_map_with_a_ring(is_signed: bool) -> None:
    net = NetworkBuilder(f"max-{is_signed}", TensorType((7, 9, 3), signed=is_signed, zero_point=100))
    first = net.pool(MaxPool, INPUT, (3, 2), (1, 2), (2, 0, 1, 1))
    beside = net.conv(first, 3, (5, 5), padding=(2, 2, 2, 2), output=net.type_of(first))
    last = net.pool(MaxPool, net.concat(first, beside), (4, 5), (3, 1), (1, 4, 3, 0))
    plan = assert_exact(net.finish_as(Embedding(), last))
    assert [launch.source.entry for launch in plan.launches] == ["pool", "direct", "rearrange", "pool"]


@pytest.mark.parametrize("form", FORMS)
def test_average_pools_count_the_padding_as_zero(form: Form) -> None:
    """The whole map, padded, is a window like any other."""
    net = NetworkBuilder(f"average-{form}", TensorType((5, 6, 3), zero_point=-128))
    first = net.average(INPUT, (2, 3), (1, 1), (1, 2, 0, 0), form)
    plan = assert_exact(net.observe(net.average(first, (7, 8), (1, 1), (1, 1, 1, 1), form)))
    assert [launch.loops for launch in plan.launches[:2]] == [(2, 3), (7, 8)]
