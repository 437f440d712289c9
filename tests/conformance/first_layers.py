"""Cases whose first layer reads the image: every kind of layer, on images whose size is not a multiple of a word.

An image lies in memory without padding, one or three channels per pixel; what follows a first layer never sees that.
"""

from collections.abc import Iterator
from functools import partial

from edgemeta.model.graph import INPUT
from edgemeta.model.layers import MaxPool, Shape, TensorType
from tests.conformance.networks import Case, Form, NetworkBuilder

SIGNED = TensorType((1, 1, 1), zero_point=-5, scale=0.05)
UNSIGNED = TensorType((1, 1, 1), signed=False, zero_point=3, scale=0.02)
SAME = (1, 1, 1, 1)

IMAGES: tuple[Shape, ...] = ((28, 28, 1), (9, 7, 1), (5, 6, 1), (1, 1, 1), (7, 5, 3), (6, 4, 3), (1, 3, 3), (1, 1, 3))
"""Lengths of 784, 63, 30, 1, 105, 72, 9 and 3: multiples of four and others."""
DENSE_FORMS: tuple[Form, ...] = ("multiplier", "table", "table-per-layer")


def image(shape: Shape, *, signed: bool = True) -> TensorType:
    return TensorType(shape, signed=signed, zero_point=-9 if signed else 40, scale=0.1)


def first_layers() -> Iterator[Case]:
    """Dense layers of every form on every image, then every other kind of layer."""
    yield from _dense()
    for shape in ((7, 5, 1), (6, 5, 3)):
        for signed in (True, False):
            yield from _others(shape, signed)


def _dense() -> Iterator[Case]:
    for shape in IMAGES:
        size = "x".join(map(str, shape))
        for signed in (True, False):
            net = NetworkBuilder(
                f"first-dense-{size}-{'signed' if signed else 'unsigned'}", image(shape, signed=signed)
            )
            net.dense(INPUT, 10)
            yield net.finish()
        for form in DENSE_FORMS:
            net = NetworkBuilder(f"first-dense-{size}-{form}", image(shape))
            yield net.observe(net.dense(INPUT, 17, form=form, output=SIGNED))
    net = NetworkBuilder("first-dense-three", image((11, 9, 1), signed=False))
    hidden = net.dense(INPUT, 33, form="multiplier", output=UNSIGNED)
    net.dense(net.dense(hidden, 21, form="table", output=SIGNED), 7)
    yield net.finish()
    net = NetworkBuilder("first-dense-bases", image((5, 7, 3)))
    net.dense(INPUT, 6, weights=partial(net.binary, bases=8))
    yield net.finish()
    net = NetworkBuilder("first-dense-powers", image((3, 5, 1)))
    net.dense(INPUT, 6, form="table", weights=partial(net.power_of_two, bits=5), output=UNSIGNED)
    yield net.finish()
    net = NetworkBuilder(
        "first-dense-twice", image((5, 3, 3))
    )  # two readers of the image: a dense layer and a convolution
    dense, conv = net.dense(INPUT, 4, form="multiplier"), net.conv(INPUT, 4, (5, 3), padding=(0, 0, 0, 0))
    yield net.observe(net.add(dense, conv, multipliers=(3, 5), shift=3))


def _others(shape: Shape, signed: bool) -> Iterator[Case]:
    """Every kind but dense; the observer behind each is a dense layer that reads a padded tensor."""
    height, width, channels = shape
    source, sign = image(shape, signed=signed), "signed" if signed else "unsigned"

    def start(kind: str) -> NetworkBuilder:
        return NetworkBuilder(f"first-{kind}-{channels}-{sign}", source)

    net = start("conv")
    yield net.observe(net.conv(INPUT, 6, output=UNSIGNED))
    net = start("conv-whole")
    yield net.observe(net.conv(INPUT, 9, (height, width), padding=(0, 0, 0, 0), form="table"))
    net = start("depthwise")
    yield net.observe(net.conv(INPUT, 2 * channels, groups=channels, output=SIGNED))
    net = start("rescale")
    yield net.observe(net.rescale(INPUT, SIGNED, "multiplier"))
    net = start("clamp")
    yield net.observe(net.clamp(INPUT, source.zero_point, source.zero_point + 60))
    net = start("add")
    yield net.observe(net.add(INPUT, INPUT, multipliers=(3, 2), shift=2))
    net = start("residual")  # the image is what a convolution adds
    branch = net.conv(INPUT, channels, output=source)
    yield net.observe(net.add(branch, INPUT, multipliers=(3, 5), shift=3))
    net = start("average-global")
    yield net.observe(net.average(INPUT, (height, width)))
    net = start("average-global-table")
    net.average(INPUT, (height, width), form="table")
    yield net.finish()
    net = start("average")
    yield net.observe(net.average(INPUT, (3, 2), (2, 1), SAME))
    net = start("max-pool")
    yield net.observe(net.pool(MaxPool, INPUT, (2, 3), (2, 1), SAME))
    net = start("concat")
    yield net.observe(net.concat(INPUT, net.clamp(INPUT, source.zero_point, source.hi), INPUT))
    net = start("upsample")
    yield net.observe(net.upsample(INPUT, (2, 3)))
