"""Bilinear resizes, with every access checked: equal to the reference bit for bit."""

import pytest

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Coordinates, TensorType
from edgemeta.model.tasks import Embedding
from tests.conformance.networks import NetworkBuilder
from tests.kernels.cuda.one_layer import assert_exact


@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric"])
@pytest.mark.parametrize("is_signed", [True, False], ids=["signed", "unsigned"])
def test_larger_and_smaller(coordinates: Coordinates, is_signed: bool) -> None:
    """From the image, which is packed, to a map with a ring, and from there to a packed output."""
    net = NetworkBuilder(f"resize-{coordinates}", TensorType((5, 7, 3), signed=is_signed, zero_point=44))
    large = net.bilinear(INPUT, (9, 8), coordinates)
    beside = net.conv(large, 3, (3, 3), output=net.type_of(large))
    small = net.bilinear(net.concat(large, beside), (3, 10), coordinates)
    plan = assert_exact(net.finish_as(Embedding(), small))
    assert [launch.source.entry for launch in plan.launches].count("resize") == 2
