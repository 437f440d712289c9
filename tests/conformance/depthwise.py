"""Depthwise convolutions: every width of kernel and stride that kernels treat in ways of their own, extreme weights."""

from collections.abc import Iterator

import numpy as np

from edgemeta.model.layers import Conv, Pair, TensorType
from edgemeta.model.weights import FixedWeights
from tests.conformance.networks import Case, Form, NetworkBuilder

SIGNED = TensorType((1, 1, 1), zero_point=-5, scale=0.05)
FORMS: tuple[Form, ...] = ("multiplier", "multiplier-per-layer", "table", "table-per-layer")


def depthwise() -> Iterator[Case]:
    """All of them."""
    for width in range(1, 10):
        for stride in (1, 2, 3):
            yield _geometry((3 if width < 9 else 1, width), (1 + width % 2, stride), (1, 1), 17)
    for kernel, dilation in (((3, 3), (2, 2)), ((3, 3), (1, 3)), ((2, 5), (3, 2)), ((1, 7), (1, 4))):
        yield _geometry(kernel, (1, 1), dilation, 20)
    for channels in (1, 15, 16, 48, 65):
        yield _geometry((3, 3), (1, 1), (1, 1), channels)
    for columns in range(1, 10):
        net = NetworkBuilder(f"depthwise-{columns}-columns", TensorType((4, columns, 18), zero_point=9))
        yield net.observe(net.conv(net.start, 18, (3, 3), groups=18, output=SIGNED))
    for form in FORMS:
        net = NetworkBuilder(f"depthwise-{form}", TensorType((7, 6, 35), signed=False, zero_point=80))
        yield net.observe(net.conv(net.start, 35, (5, 5), padding=(2, 2, 2, 2), groups=35, form=form, output=SIGNED))
    for name, value in (("lowest", -128), ("highest", 127)):
        source, output = TensorType((6, 6, 16), signed=False), TensorType((6, 6, 16), zero_point=3)
        net = NetworkBuilder(f"depthwise-{name}", source)
        weights = FixedWeights(np.full((16, 3, 3, 1), value, np.int8), 8, np.array([1.0]))
        requantize = net.requantize("multiplier", np.full(16, 255.0 * 128 * 4), output)
        name = net.append(
            Conv(
                "conv",
                net.start,
                output,
                weights=weights,
                bias=None,
                stride=(1, 1),
                padding=(1, 1, 1, 1),
                groups=16,
                requantize=requantize,
            )
        )
        yield net.observe(name)


def _geometry(kernel: Pair, stride: Pair, dilation: Pair, channels: int) -> Case:
    """Padded unevenly, two rows and ten columns larger than the window."""
    rows, columns = ((taps - 1) * step for taps, step in zip(kernel, dilation, strict=True))
    text = "-".join(f"{a}x{b}" for a, b in (kernel, stride, dilation))
    net = NetworkBuilder(f"depthwise-{text}-{channels}", TensorType((rows + 3, columns + 11, channels), zero_point=-17))
    padding = (rows // 2, columns // 2, rows, columns - columns // 2)
    return net.observe(
        net.conv(net.start, channels, kernel, stride, padding, groups=channels, dilation=dilation, output=SIGNED)
    )
