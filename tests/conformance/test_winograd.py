"""The Winograd forms equal the sums of the 3x3 convolutions in the table, for each input of each case.

ResNet-8 is left out: its shapes are among the smaller cases, and the plain sums take long.
"""

import numpy as np

from edgemeta.model.layers import Conv
from edgemeta.model.reference import trace
from edgemeta.model.winograd import F2, F4, convolve, most_channels
from tests.conformance import oracle
from tests.conformance.cases import CASES, SAME, Case
from tests.parts import by_name, in_parts


def eligible(case: Case) -> list[Conv]:
    """Convolutions that Winograd can do: 3x3, stride 1, one group, padded by one, sums in range."""
    return [
        layer
        for layer in case.model.layers
        if isinstance(layer, Conv)
        and layer.weights.shape[1:3] == (3, 3)
        and (layer.stride, layer.groups, layer.padding, layer.dilation) == ((1, 1), 1, SAME, (1, 1))
        and layer.weights.shape[3] <= most_channels(F4, 255, int(np.abs(layer.weights.decode()).max()))
    ]


@in_parts({name: case for name, case in by_name(CASES).items() if not name.startswith("resnet8")})
def test_sums_equal_direct_convolution(case: Case) -> None:
    types = case.model.types
    for _, batch in case.batches():
        tensors = trace(case.model, batch)
        for layer in eligible(case):
            x = oracle.real(layer.input, tensors, types)
            bias = 0 if layer.bias is None else layer.bias
            expected = oracle.convolution(x, layer) - bias
            weights = layer.weights.decode()
            for transform in (F2, F4):
                for image, sums in zip(x.astype(np.int32), expected, strict=True):
                    np.testing.assert_array_equal(convolve(image, weights, transform), sums)


def test_most_cases_with_3x3_convolutions_are_eligible() -> None:
    assert sum(bool(eligible(case)) for case in CASES) > 100
