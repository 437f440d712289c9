"""Convolutions of 4-bit weights and activations whose channels fit int4 matrix instructions."""

from collections.abc import Iterator
from functools import partial

import numpy as np

from edgemeta.model.layers import Conv, Padding, Pair, TensorType
from edgemeta.model.weights import FixedWeights
from tests.conformance.networks import Case, NetworkBuilder

SAME, NONE = (1, 1, 1, 1), (0, 0, 0, 0)
GEOMETRIES: dict[str, tuple[tuple[int, int, int], int, Pair, Pair, Padding]] = {
    # name: input shape, output channels, kernel, stride, padding
    "3x3": ((6, 7, 32), 32, (3, 3), (1, 1), SAME),
    "3x3-stride2": ((9, 8, 64), 40, (3, 3), (2, 2), SAME),
    "1x1": ((5, 7, 96), 17, (1, 1), (1, 1), NONE),
    "5x2": ((6, 5, 128), 9, (5, 2), (1, 1), (2, 1, 2, 0)),
}
WEIGHTS = {"lowest": (-8, -8), "highest": (7, 7), "alternating": (-8, 7)}


def four_bits() -> Iterator[Case]:
    """Every geometry with signed and unsigned input, extreme weights, and a residual block."""
    for is_signed in (False, True):
        kind = partial(TensorType, bits=4, signed=is_signed, zero_point=-3 if is_signed else 2)
        sign = "signed" if is_signed else "unsigned"
        for name, (shape, channels, kernel, stride, padding) in GEOMETRIES.items():
            net = NetworkBuilder(f"w4a4-{name}-{sign}", kind(shape))
            weights = partial(net.fixed, bits=4)
            yield net.observe(
                net.conv(net.start, channels, kernel, stride, padding, weights=weights, output=kind((1, 1, 1)))
            )
        for name, (even, odd) in WEIGHTS.items():
            yield _extreme(f"w4a4-weights-{name}-{sign}", kind((5, 6, 64)), even, odd)
        yield _residual_block(f"w4a4-residual-block-{sign}", kind((8, 6, 32)))


def _extreme(name: str, source: TensorType, even: int, odd: int) -> Case:
    """Every product of the ends of both ranges: -8 x 15, -8 x -8 and their opposites, in sums of 576 of them."""
    net = NetworkBuilder(name, source)
    shape = (20, 3, 3, 64)
    values = np.where(np.indices(shape).sum(axis=0) % 2, odd, even).astype(np.int8)
    output = TensorType((5, 6, 20), zero_point=-5)
    requantize = net.requantize("multiplier", np.full(20, 15.0 * 8 * 576 / 2), output)
    weights = FixedWeights(values, 4, np.array([1.0]))
    net.append(Conv("conv", net.start, output, weights=weights, padding=SAME, requantize=requantize))
    return net.observe("conv")


def _residual_block(name: str, source: TensorType) -> Case:
    """A strided convolution with a 1x1 shortcut, one whose sums the shortcut's are added to, and a second block."""
    net = NetworkBuilder(name, source)
    conv = partial(net.conv, weights=partial(net.fixed, bits=4), output=source)
    shortcut = conv(net.start, 64, (1, 1), (2, 2), NONE)
    branch = conv(conv(net.start, 64, stride=(2, 2)), 64)
    first = net.add(branch, shortcut, multipliers=(777_777, 1_234_567), shift=20, relu=True)
    return net.observe(net.add(first, conv(conv(first, 64), 64), multipliers=(999_999, 888_888), shift=20))
