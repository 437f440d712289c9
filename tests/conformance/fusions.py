"""Graphs that planners rearrange: tables behind layers, tensors that are parts of others, slices that are convolved."""

from collections.abc import Iterator
from itertools import product

from edgemeta.model.layers import MaxPool, TensorType
from tests.conformance.networks import Case, NetworkBuilder

SAME = (1, 1, 1, 1)
NONE = (0, 0, 0, 0)
KIND = TensorType((1, 1, 1), zero_point=-5, scale=0.05)
OTHER = TensorType((1, 1, 1), signed=False, zero_point=77, scale=0.05)


def fusions() -> Iterator[Case]:
    """All of them."""
    yield from tables()
    yield from joined()
    yield from sliced()
    yield from spaces_to_depth()


def _net(name: str, channels: int, height: int = 6, width: int = 7) -> NetworkBuilder:
    return NetworkBuilder(name, TensorType((height, width, channels), zero_point=-5, scale=0.05))


def tables() -> Iterator[Case]:
    """A table behind every kind of layer, chains of tables, and tables whose input has other readers."""
    kinds = ("conv", "wide", "depthwise", "groups", "add", "fused-add", "max-pool", "average", "product", "upsample")
    for kind, per_channel in product(kinds, (False, True)):
        net = _net(f"{'tables' if per_channel else 'table'}-after-{kind}", 18)
        x = net.start
        match kind:
            case "conv":
                x = net.conv(x, 17, output=KIND)
            case "wide":
                x = net.conv(x, 40, (1, 1), padding=NONE, form="table", output=OTHER)
            case "depthwise":
                x = net.conv(x, 18, groups=18, output=KIND)
            case "groups":
                x = net.conv(x, 12, groups=6, output=OTHER)
            case "add":
                x = net.add(x, x, multipliers=(3, 5), shift=3)
            case "fused-add":
                x = net.add(net.conv(x, 18, output=KIND), x, multipliers=(3, 5), shift=3, zero_point=11)
            case "max-pool":
                x = net.pool(MaxPool, x, (5, 3), (1, 2), SAME)
            case "average":
                x = net.average(x, (3, 3), (2, 2), SAME)
            case "product":
                x = net.product(x, x, OTHER, "multiplier")
            case "upsample":
                x = net.upsample(x, (2, 3))
        yield net.observe(net.lookup(x, OTHER, per_channel))
    yield from tables_of_channels()
    net = _net("table-chain", 20)
    x = net.rescale(net.clamp(net.conv(net.start, 33, output=KIND), -70, 99), OTHER, "multiplier-per-layer")
    x = net.lookup(net.rescale(x, KIND, "table-per-layer"), OTHER)
    yield net.observe(net.conv(x, 6, output=KIND))
    net = _net("table-chain-of-image", 3)
    yield net.observe(net.lookup(net.clamp(net.start, -70, 99), OTHER))
    net = _net("table-of-channels-between", 20)
    x = net.lookup(net.lookup(net.lookup(net.conv(net.start, 20), KIND), OTHER, per_channel=True), KIND)
    yield net.observe(x)
    net = _net("table-two-readers", 16)
    x = net.conv(net.start, 16, output=KIND)
    yield net.observe(net.concat(net.lookup(x, KIND), x, net.lookup(x, KIND)))
    net = _net("table-padded-reader", 16)
    x = net.lookup(net.conv(net.start, 24, output=OTHER), KIND)
    yield net.observe(net.conv(x, 24, (5, 5), padding=(2, 2, 2, 2), groups=24, output=KIND))
    net = _net("table-wide-rows", 16, 3, 600)
    x = net.lookup(net.conv(net.start, 16, (1, 1), padding=NONE, output=OTHER), KIND)
    yield net.observe(net.pool(MaxPool, x, (1, 100), (1, 100), NONE))


def tables_of_channels() -> Iterator[Case]:
    """Tables for each channel on rows that are many pixels, few, or one run with the border between them, and parts."""
    for height, width, channels in ((9, 23, 33), (3, 600, 16), (1, 70, 20), (13, 13, 48), (2, 9, 100)):
        for reader in ("padded", "none"):
            net = _net(f"tables-{height}x{width}x{channels}-{reader}", 3, height, width)
            x = net.lookup(net.conv(net.start, channels, output=OTHER), KIND, per_channel=True)
            if reader == "padded":
                x = net.conv(x, channels, (5, 5), padding=(2, 2, 2, 2), groups=channels, output=KIND)
            yield net.observe(net.pool(MaxPool, x, (1, min(width, 9)), (1, min(width, 9)), NONE))
    net = _net("tables-of-parts", 16, 7, 11)
    parts = [net.lookup(net.conv(net.start, each, output=KIND), KIND, per_channel=True) for each in (32, 16, 5)]
    yield net.observe(net.conv(net.concat(*parts), 40, (5, 5), padding=(2, 2, 2, 2), output=KIND))
    net = _net("tables-of-an-image", 3, 7, 11)
    x = net.lookup(net.lookup(net.start, OTHER, per_channel=True), KIND)
    yield net.observe(net.conv(x, 17, output=KIND))
    net = _net("tables-alone", 40, 7, 11)
    x = net.conv(net.start, 40, output=KIND)
    y = net.lookup(net.clamp(net.lookup(x, OTHER), 3, 200), KIND, per_channel=True)
    yield net.observe(net.concat(x, net.lookup(y, KIND, per_channel=True), y))


def joined() -> Iterator[Case]:
    """Inputs of a concatenation that may be written in its place, and those that may not."""
    for first, second, third in ((16, 32, 16), (16, 16, 5), (32, 7, 16), (5, 16, 16), (16, 48, 1)):
        net = _net(f"concat-{first}-{second}-{third}", 16)
        parts = [net.conv(net.start, channels, output=KIND) for channels in (first, second, third)]
        whole = net.concat(*parts)
        read = net.conv(parts[1], 8, (5, 5), padding=(2, 2, 2, 2), output=KIND)  # a part with a border
        yield net.observe(net.concat(net.conv(whole, 8, output=KIND), read))
    net = _net("concat-of-concats", 16)
    a, b = net.conv(net.start, 16, output=KIND), net.conv(net.start, 32, output=KIND)
    inner = net.concat(b, a)
    outer = net.concat(a, inner, net.pool(MaxPool, b, (3, 3), (1, 1), SAME), inner)
    yield net.observe(net.conv(net.lookup(outer, OTHER), 9, output=KIND))
    net = _net("concat-twice", 16)
    a = net.lookup(net.conv(net.start, 16), KIND)
    yield net.observe(net.add(net.concat(a, net.start), net.concat(net.start, a), multipliers=(1, 1), shift=1))
    net = _net("concat-image", 3)
    a = net.conv(net.start, 16, output=KIND)
    yield net.observe(net.conv(net.concat(a, net.start), 20, output=KIND))
    net = _net("concat-of-every-kind", 16, 4, 4)
    small = net.pool(MaxPool, net.start, (2, 2), (2, 2), NONE)
    depthwise = net.conv(net.start, 16, groups=16, output=KIND)
    grouped = net.conv(net.start, 32, groups=4, output=KIND)
    parts = [
        *(net.upsample(small, (2, 2)), depthwise, grouped, net.bilinear(small, (4, 4), "half_pixel")),
        net.shuffle(depthwise, 4),
        net.add(depthwise, net.start, multipliers=(1, 2), shift=1, zero_point=-5),
        net.rescale(net.product(net.start, depthwise, OTHER, "table"), KIND, "multiplier"),
        net.pad(net.pool(MaxPool, small, (1, 1), (1, 1), NONE), NONE, (3, 3)),
        net.slice(grouped, (0, 0, 3), (4, 4, 19)),
        net.average(depthwise, (3, 3), padding=SAME),
    ]
    yield net.observe(net.conv(net.concat(*parts), 12, output=KIND))


def sliced() -> Iterator[Case]:
    """Slices of channels that begin at a block and may be parts of their input, and others."""
    for start, stop in ((0, 16), (16, 40), (32, 48), (16, 19), (7, 30)):
        net = _net(f"slice-of-channels-{start}-{stop}", 16)
        x = net.slice(net.conv(net.start, 48, output=KIND), (0, 0, start), (6, 7, stop))
        depthwise = net.conv(x, stop - start, (5, 5), padding=(2, 2, 2, 2), groups=stop - start, output=KIND)
        yield net.observe(net.concat(net.lookup(x, KIND), depthwise, net.conv(x, 5, output=KIND)))
    net = _net("split-and-join", 16)
    x = net.lookup(net.conv(net.start, 64, (1, 1), padding=NONE), KIND)
    left, right = net.slice(x, (0, 0, 0), (6, 7, 32)), net.slice(x, (0, 0, 32), (6, 7, 64))
    y = net.add(right, net.conv(right, 32, output=KIND), multipliers=(1, 1), shift=0, zero_point=-5)
    yield net.observe(net.conv(net.concat(left, right, y), 10, (1, 1), padding=NONE, output=KIND))
    net = _net("slice-of-a-part", 16)
    a, b = net.conv(net.start, 32, output=KIND), net.conv(net.start, 16, output=KIND)
    both = net.concat(b, a)
    last = net.slice(net.slice(both, (0, 0, 16), (6, 7, 48)), (0, 0, 16), (6, 7, 32))
    yield net.observe(net.concat(net.conv(last, 4, output=KIND), both))


def spaces_to_depth() -> Iterator[Case]:
    """Slices by steps, joined and convolved: those that are one convolution of the image, and others."""
    orders = {
        "rows": ((0, 0), (0, 1), (1, 0), (1, 1)),
        "columns": ((0, 0), (1, 0), (0, 1), (1, 1)),
        "twice": ((0, 0), (1, 1), (1, 1), (0, 1)),
        "one": ((1, 0),),
    }
    for name, corners in orders.items():
        for kernel, stride, padding in (((3, 3), (1, 1), SAME), ((2, 3), (2, 1), (1, 0, 0, 2)), ((1, 1), (1, 1), NONE)):
            net = _net(f"space-to-depth-{name}-{kernel[0]}x{kernel[1]}", 3, 10, 8)
            parts = [net.slice(net.start, (y, x, 0), (10, 8, 3), (2, 2, 1)) for y, x in corners]
            yield net.observe(net.conv(net.concat(*parts), 19, kernel, stride, padding, output=KIND))
    net = _net("space-to-depth-3x1", 5, 9, 4)
    parts = [net.slice(net.start, (y, 0, channel), (9, 4, 5), (3, 1, 2)) for y, channel in ((0, 0), (1, 1), (2, 0))]
    yield net.observe(net.conv(net.concat(*parts), 6, output=KIND))
    net = _net("space-to-depth-odd", 3, 9, 7)
    parts = [net.slice(net.start, (y, x, 0), (8 + y, 6 + x, 3), (2, 2, 1)) for y in (0, 1) for x in (0, 1)]
    yield net.observe(net.conv(net.concat(*parts), 6, output=KIND))
    net = _net("space-to-depth-with-another-reader", 3, 8, 8)
    parts = [net.slice(net.start, (y, x, 0), (8, 8, 3), (2, 2, 1)) for y in (0, 1) for x in (0, 1)]
    whole = net.concat(*parts)
    yield net.observe(net.concat(net.conv(whole, 6, output=KIND), whole))
    net = _net("space-to-depth-depthwise", 3, 8, 8)
    parts = [net.slice(net.start, (y, x, 0), (8, 8, 3), (2, 2, 1)) for y in (0, 1) for x in (0, 1)]
    yield net.observe(net.conv(net.concat(*parts), 12, groups=12, output=KIND))
