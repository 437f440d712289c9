"""The one table of conformance cases: small models, and inputs on which every backend equals the reference bit for bit.

Tests and benchmarks both read it. All numbers are random with seeds taken from the names, so that a case never changes
because another one was added. A layer is looked at through a dense layer with raw int32 output and no weight of 0:
one wrong integer anywhere changes the logits.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from edgemeta.model.layers import Conv, Coordinates, MaxPool, Multiplier, Padding, Pair, Shape, ShiftTable, TensorType
from edgemeta.model.layers.exact_functions import EXACT
from edgemeta.model.layers.functions import FUNCTIONS
from edgemeta.model.tasks import Detection, DetectionLevel, Embedding
from edgemeta.model.weights import FixedWeights
from tests.conformance.depthwise import depthwise
from tests.conformance.first_layers import first_layers
from tests.conformance.four_bits import four_bits
from tests.conformance.fusions import fusions
from tests.conformance.networks import Case, Form, NetworkBuilder
from tests.conformance.ties import ties

SIGNED = TensorType((1, 1, 1), zero_point=-5, scale=0.05)
UNSIGNED = TensorType((1, 1, 1), signed=False, zero_point=0, scale=0.02)
SAME = (1, 1, 1, 1)
NONE = (0, 0, 0, 0)


def signed(*shape: int, bits: int = 8, zero_point: int = 0) -> TensorType:
    return TensorType((shape[0], shape[1], shape[2]), bits, True, zero_point, 2.0**-4)


def unsigned(*shape: int, bits: int = 8, zero_point: int = 0) -> TensorType:
    return TensorType((shape[0], shape[1], shape[2]), bits, False, zero_point, 2.0**-4)


GEOMETRIES: dict[str, tuple[Shape, int, Pair, Pair, Padding, int]] = {
    # name: input shape, output channels, kernel, stride, padding (top, left, bottom, right), groups
    "1x1": ((5, 7, 3), 16, (1, 1), (1, 1), NONE, 1),
    "1x1-stride2": ((9, 7, 16), 33, (1, 1), (2, 2), NONE, 1),
    "1x1-wide": ((3, 3, 70), 65, (1, 1), (1, 1), NONE, 1),
    "3x3": ((6, 6, 16), 16, (3, 3), (1, 1), SAME, 1),
    "3x3-image": ((9, 11, 3), 16, (3, 3), (1, 1), SAME, 1),
    "3x3-odd": ((7, 5, 17), 19, (3, 3), (1, 1), SAME, 1),
    "3x3-tiny": ((1, 1, 2), 3, (3, 3), (1, 1), SAME, 1),
    "3x3-column": ((9, 1, 5), 4, (3, 3), (1, 1), SAME, 1),
    "3x3-valid": ((8, 6, 4), 8, (3, 3), (1, 1), NONE, 1),
    "3x3-wide": ((8, 8, 64), 64, (3, 3), (1, 1), SAME, 1),
    "3x3-stride2": ((9, 8, 16), 32, (3, 3), (2, 2), SAME, 1),
    "3x3-stride2-tf": ((8, 8, 16), 24, (3, 3), (2, 2), (0, 0, 1, 1), 1),
    "3x3-stride3": ((10, 11, 5), 7, (3, 3), (3, 3), SAME, 1),
    "3x3-stride1x2": ((7, 9, 6), 5, (3, 3), (1, 2), (1, 0, 2, 1), 1),
    "3x3-groups2": ((6, 5, 6), 8, (3, 3), (1, 1), SAME, 2),
    "3x3-groups4": ((5, 5, 32), 16, (3, 3), (2, 2), SAME, 4),
    "3x3-depthwise": ((7, 7, 19), 19, (3, 3), (1, 1), SAME, 19),
    "3x3-depthwise-stride2": ((9, 9, 32), 32, (3, 3), (2, 2), (0, 0, 1, 1), 32),
    "3x3-depthwise-twofold": ((5, 6, 5), 10, (3, 3), (1, 1), SAME, 5),
    "5x5": ((7, 9, 4), 6, (5, 5), (1, 1), (2, 2, 2, 2), 1),
    "5x5-stride2": ((11, 9, 3), 8, (5, 5), (2, 2), (1, 2, 2, 1), 1),
    "5x5-depthwise": ((6, 6, 8), 8, (5, 5), (1, 1), (2, 2, 2, 2), 8),
    "7x1": ((9, 5, 3), 4, (7, 1), (1, 1), (3, 0, 3, 0), 1),
    "1x7": ((4, 9, 3), 4, (1, 7), (1, 2), (0, 6, 0, 0), 1),
    "4x2": ((8, 7, 3), 5, (4, 2), (2, 1), (3, 0, 1, 1), 1),
    "7x7-stride2": ((15, 15, 3), 8, (7, 7), (2, 2), (3, 3, 3, 3), 1),
    "whole-map": ((4, 3, 8), 12, (4, 3), (1, 1), NONE, 1),
}
FORMS: tuple[Form, ...] = ("multiplier", "multiplier-per-layer", "table", "table-per-layer")


def convolutions() -> Iterator[Case]:
    """Every geometry, signed input with a zero point and unsigned input without one."""
    for name, (shape, channels, kernel, stride, padding, groups) in GEOMETRIES.items():
        for kind, source, output in (
            ("signed", signed(*shape, zero_point=-17), SIGNED),
            ("unsigned", unsigned(*shape), UNSIGNED),
        ):
            net = NetworkBuilder(f"conv-{name}-{kind}", source)
            yield net.observe(net.conv(net.start, channels, kernel, stride, padding, groups=groups, output=output))


def encodings() -> Iterator[Case]:
    """Each way to write weights, in a convolution and a dense layer."""
    for bits in range(1, 9):
        for per_channel in (False, True):
            net = NetworkBuilder(f"fixed{bits}-{'channel' if per_channel else 'layer'}", signed(5, 6, 7, zero_point=3))
            make = partial(net.fixed, bits=bits, per_channel=per_channel)
            hidden = net.conv(net.start, 9, weights=make, output=SIGNED, with_bias=per_channel)
            net.dense(hidden, 6, weights=partial(net.fixed, bits=bits))
            yield net.finish()
    for bits in range(2, 6):
        net = NetworkBuilder(f"power-of-two{bits}", signed(5, 6, 7))
        make_codes = partial(net.power_of_two, bits=bits)
        net.dense(net.conv(net.start, 9, weights=make_codes, form="table"), 6, weights=make_codes)
        yield net.finish()
    for bases in (1, 2, 3, 8):
        net = NetworkBuilder(f"binary{bases}", unsigned(5, 6, 7, bits=5, zero_point=4))
        make_bases = partial(net.binary, bases=bases)
        hidden = net.conv(net.start, 9, weights=make_bases, output=unsigned(1, 1, 1, bits=6, zero_point=9))
        net.dense(hidden, 6, weights=make_bases)
        yield net.finish()
    net = NetworkBuilder("binary8-wide", signed(5, 6, 3, bits=5))  # weights of more than 16 bits
    wide = partial(net.binary, bases=8, reach=32767)
    yield net.observe(net.conv(net.start, 9, weights=wide, output=SIGNED))


def activations() -> Iterator[Case]:
    """Every width of activation, signed and not, zero point at both ends and inside, with both requantize forms."""
    for bits in range(1, 9):
        for make in (signed, unsigned):
            plain = make(6, 5, 8, bits=bits)
            for name, zero_point in (("low", plain.lo), ("high", plain.hi), ("inside", (plain.lo + plain.hi) // 2)):
                kind = make(6, 5, 8, bits=bits, zero_point=zero_point)
                net = NetworkBuilder(f"activation-{make.__name__}{bits}-{name}", kind)
                hidden = net.conv(net.start, 10, output=kind)
                yield net.observe(net.conv(hidden, 6, form="table", output=kind))


def requantizations() -> Iterator[Case]:
    """Each form on each layer that has one, then ties, saturation and the ends of the ranges."""
    for form in FORMS:
        net = NetworkBuilder(f"conv-{form}", signed(6, 6, 8))
        yield net.observe(net.conv(net.start, 16, form=form, output=SIGNED))
        net = NetworkBuilder(f"dense-{form}", unsigned(3, 5, 8, zero_point=100))
        net.dense(net.dense(net.start, 33, form=form, output=UNSIGNED), 10, form=form, output=SIGNED)
        yield net.finish()
        net = NetworkBuilder(f"rescale-{form}", signed(5, 4, 9, zero_point=11))
        yield net.observe(net.rescale(net.start, unsigned(1, 1, 1, bits=5, zero_point=7), form))
        net = NetworkBuilder(f"average-{form}", signed(7, 6, 9, zero_point=-20))
        yield net.observe(net.average(net.start, (3, 2), (2, 1), (1, 0, 1, 1), form))
    for name, multiplier, shift in (
        ("ties-1", 1, 1),
        ("ties-2", 1, 2),
        ("ties-3", 5, 4),
        ("shift-0", 1, 0),
        ("saturating", 2**31 - 1, 20),
        ("greatest-product", 2**31 - 1, 56),
        ("greatest-shift", 2**31 - 1, 62),
        ("multiplier-0", 0, 7),
    ):
        yield from _exact_requantization(name, multiplier, shift)


def _exact_requantization(name: str, multiplier: int, shift: int) -> Iterator[Case]:
    """One given multiplier and shift; the greatest ones have accumulators near both ends of int32."""
    source, output = signed(5, 5, 2, bits=3), signed(5, 5, 4, zero_point=-1)
    net = NetworkBuilder(f"requantize-{name}", source)
    values = FixedWeights(net.rng.integers(-2, 2, (4, 3, 3, 2)).astype(np.int8), 2, np.array([0.25]))
    extremes = np.array([2**31 - 200, -(2**31) + 200, 2**30, -3], np.int32)
    is_extreme = name.startswith("greatest")
    bias = extremes if is_extreme else np.array([1, -2, 0, 7], np.int32)
    shifts = np.array([shift, shift, shift, 31] if is_extreme else [shift], np.uint8)
    requantize = Multiplier(np.array([multiplier], np.int32), shifts, -100, 101)
    net.append(Conv("conv", net.start, output, weights=values, bias=bias, padding=SAME, requantize=requantize))
    yield net.observe("conv")


def extremes() -> Iterator[Case]:
    """Weights at both ends of their range, where 16-bit sums of products saturate, and sums near the ends of int32."""
    for make in (signed, unsigned):
        for name, low, high in (("lowest", -128, -128), ("highest", 127, 127), ("alternating", -128, 127)):
            for kernel, padding in (((3, 3), SAME), ((1, 1), NONE)):
                net = NetworkBuilder(f"extreme-weights-{name}-{kernel[0]}x{kernel[1]}-{make.__name__}", make(6, 7, 64))
                shape = (20, *kernel, 64)
                values = np.where(np.indices(shape).sum(axis=0) % 2, low, high).astype(np.int8)
                weights = FixedWeights(values, 8, np.array([1.0]))
                output = signed(6, 7, 20, zero_point=-5)
                greatest = np.full(20, 255.0 * 128 * np.prod(shape[1:]))
                requantize = net.requantize("multiplier", greatest / 2, output)
                net.append(Conv("conv", net.start, output, weights=weights, padding=padding, requantize=requantize))
                yield net.observe("conv")
    net = NetworkBuilder("extreme-sums-table", signed(4, 4, 3, bits=2))
    values = net.rng.integers(-2, 2, (6, 1, 1, 3)).astype(np.int8)
    bias = np.array([2**31 - 50, -(2**31) + 50, 2**31 - 50, -(2**31) + 50, 2**30, 0], np.int32)
    shifts = np.array([0, 0, 31, 31, 23, 1], np.uint8)
    output = signed(4, 4, 6)
    table = net.rng.integers(-128, 128, (6, 256)).astype(np.int8)
    weights = FixedWeights(values, 2, np.array([1.0]))
    net.append(Conv("conv", net.start, output, weights=weights, bias=bias, requantize=ShiftTable(shifts, table)))
    yield net.observe("conv")
    net = NetworkBuilder("dense-wide", unsigned(16, 16, 19))
    net.dense(net.dense(net.start, 129, form="multiplier", output=SIGNED), 100, form="table", output=SIGNED)
    yield net.finish()


def elementwise() -> Iterator[Case]:
    """Add, clamp, pools, concat, upsample, each behind the layers it needs."""
    for name, multipliers, shift, relu in (
        ("plain", (1, 1), 0, False),
        ("relu", (1, 1), 0, True),
        ("scaled", (1_300_001, 2**21), 21, False),
        ("ties", (3, 1), 2, True),
        ("largest", (2**21, 2**21), 29, False),
        ("one-sided", (0, 2**20), 18, False),
    ):
        for make in (signed, unsigned):
            net = NetworkBuilder(f"add-{name}-{make.__name__}", make(6, 5, 7, zero_point=13))
            branch = net.conv(net.start, 7, output=make(1, 1, 1, zero_point=50))
            yield net.observe(
                net.add(net.start, branch, multipliers=multipliers, shift=shift, relu=relu, zero_point=21)
            )
    net = NetworkBuilder("add-itself", signed(3, 4, 5))
    yield net.observe(net.add(net.start, net.start, multipliers=(2**15, 2**14), shift=16))
    net = NetworkBuilder("clamp", signed(5, 6, 3, zero_point=-10))
    yield net.observe(net.clamp(net.start, -10, 77))
    for make in (signed, unsigned):
        for name, kernel, stride, padding in (
            ("2x2", (2, 2), (2, 2), NONE),
            ("3x3-padded", (3, 3), (2, 2), SAME),
            ("1x3", (1, 3), (1, 1), (0, 2, 0, 1)),
            ("whole", (7, 9), (1, 1), NONE),
        ):
            net = NetworkBuilder(f"max-pool-{name}-{make.__name__}", make(7, 9, 17, zero_point=40))
            yield net.observe(net.pool(MaxPool, net.start, kernel, stride, padding))
            net = NetworkBuilder(f"average-pool-{name}-{make.__name__}", make(7, 9, 17, zero_point=40))
            yield net.observe(net.average(net.start, kernel, stride, padding))
    net = NetworkBuilder("concat", signed(4, 5, 3, zero_point=9))
    twin = net.conv(net.start, 6, output=signed(1, 1, 1, zero_point=9))
    yield net.observe(net.concat(twin, net.start, twin))
    for factor in ((2, 2), (3, 1), (1, 4)):
        net = NetworkBuilder(f"upsample-{factor[0]}x{factor[1]}", unsigned(3, 2, 5, zero_point=3))
        yield net.observe(net.upsample(net.start, factor))


def tables() -> Iterator[Case]:
    """Functions of one element, from and to every kind of integer."""
    for make in (signed, unsigned):
        for bits in (8, 4):
            for per_channel in (False, True):
                name = f"lookup-{make.__name__}{bits}-{'channel' if per_channel else 'layer'}"
                net = NetworkBuilder(name, make(5, 4, 19, bits=bits, zero_point=1))
                narrow = net.lookup(net.start, unsigned(1, 1, 1, bits=5, zero_point=7), per_channel)
                yield net.observe(net.lookup(narrow, signed(1, 1, 1, zero_point=-3), per_channel))

    for function in (each for each in FUNCTIONS if each in EXACT):
        net = NetworkBuilder(f"lookup-recipe-{function}", signed(5, 4, 19, zero_point=1))
        yield net.observe(net.made_lookup(net.start, unsigned(1, 1, 1, zero_point=9), function))


def products() -> Iterator[Case]:
    """Elementwise products of two maps, of a map with itself, and with one factor per channel."""
    for form in FORMS:
        net = NetworkBuilder(f"product-{form}", signed(5, 6, 19, zero_point=-100))
        other = net.conv(net.start, 19, output=unsigned(1, 1, 1, zero_point=200))
        yield net.observe(net.product(net.start, other, signed(1, 1, 1, zero_point=9), form))
    net = NetworkBuilder("product-itself", unsigned(4, 5, 3))
    yield net.observe(net.product(net.start, net.start, unsigned(1, 1, 1), "multiplier"))
    for height, width in ((6, 5), (1, 1)):
        net = NetworkBuilder(f"squeeze-excite-{height}x{width}", signed(height, width, 20, zero_point=-7))
        squeezed = net.average(net.start, (height, width))
        narrow = net.conv(squeezed, 5, (1, 1), padding=NONE, output=UNSIGNED)
        wide = net.conv(narrow, 20, (1, 1), padding=NONE, output=SIGNED)
        factors = net.lookup(wide, unsigned(1, 1, 1))
        yield net.observe(net.product(net.start, factors, SIGNED, "multiplier-per-layer"))


def rearrangements() -> Iterator[Case]:
    """Dilated and transposed convolutions, slices, the focus of YOLOX, shuffled channels, bilinear resizes."""
    for name, kernel, dilation, padding, channels in (
        ("2", (3, 3), (2, 2), (2, 2, 2, 2), 16),
        ("3x1", (3, 2), (3, 1), (4, 1, 6, 0), 5),
        ("1x4", (1, 3), (1, 4), (0, 8, 0, 3), 4),
    ):
        for groups in (1, channels):
            for make in (signed, unsigned):
                source = make(9, 8, channels, zero_point=5)
                net = NetworkBuilder(f"dilated-{name}-groups{groups}-{make.__name__}", source)
                conv = partial(net.conv, padding=padding, dilation=dilation, groups=groups)
                yield net.observe(conv(net.start, channels, kernel, output=SIGNED))
    net = NetworkBuilder("dilated-image-stride2", signed(15, 14, 3, zero_point=-9))
    yield net.observe(net.conv(net.start, 17, (3, 3), (2, 2), (2, 2, 2, 2), dilation=(2, 2), output=SIGNED))
    for name, padding, spacing in (
        ("plain", (2, 0, 1, 3), (1, 1)),
        ("spaced", (0, 0, 0, 0), (2, 3)),
        ("both", (1, 2, 0, 1), (3, 2)),
    ):
        net = NetworkBuilder(f"pad-{name}", signed(3, 4, 18, zero_point=77))
        busy = net.conv(net.start, 18, output=signed(1, 1, 1, zero_point=77))  # may leave its integers in the memory
        yield net.observe(net.pad(busy, padding, spacing))
    net = NetworkBuilder("transposed-3x3-stride2", unsigned(5, 4, 8, zero_point=128))
    spread = net.pad(net.start, (1, 1, 2, 2), (2, 2))
    yield net.observe(net.conv(spread, 6, padding=NONE, output=SIGNED))
    for name, start, stop, step in (
        ("corner", (1, 2, 0), (4, 5, 20), (1, 1, 1)),
        ("channels", (0, 0, 5), (5, 6, 18), (1, 1, 1)),
        ("steps", (0, 1, 1), (5, 6, 20), (2, 3, 4)),
    ):
        net = NetworkBuilder(f"slice-{name}", signed(5, 6, 20, zero_point=-1))
        yield net.observe(net.slice(net.start, start, stop, step))
    net = NetworkBuilder("focus", unsigned(8, 6, 3))
    corners = [net.slice(net.start, (y, x, 0), (8, 6, 3), (2, 2, 1)) for x, y in ((0, 0), (0, 1), (1, 0), (1, 1))]
    yield net.observe(net.conv(net.concat(*corners), 16, output=SIGNED))
    for groups in (1, 3, 8, 24):
        net = NetworkBuilder(f"shuffle-{groups}", unsigned(3, 4, 24, zero_point=40))
        yield net.observe(net.shuffle(net.start, groups))
    coordinates: tuple[Coordinates, ...] = ("half_pixel", "align_corners", "asymmetric")
    for each in coordinates:
        for height, width in ((10, 12), (7, 3), (1, 1), (5, 6)):
            net = NetworkBuilder(f"bilinear-{each}-{height}x{width}", signed(5, 6, 17, zero_point=3))
            yield net.observe(net.bilinear(net.start, (height, width), each))


def raw_outputs() -> Iterator[Case]:
    """Networks that end in accumulators, from a convolution over the whole map and from a dense layer."""
    net = NetworkBuilder("raw-conv", signed(4, 5, 6, zero_point=7))
    net.conv(net.start, 10, (4, 5), padding=NONE, form=None)
    yield net.finish()
    net = NetworkBuilder("raw-conv-depthwise", signed(3, 3, 6))
    net.conv(net.start, 6, (3, 3), padding=NONE, form=None, groups=6, with_bias=False)
    yield net.finish()
    net = NetworkBuilder("raw-dense", unsigned(2, 3, 7, zero_point=128))
    net.dense(net.start, 11)
    yield net.finish()


def several_outputs() -> Iterator[Case]:
    """Maps as outputs: raw with a step per channel, 8-bit, one that later layers read, and the input's own twin."""
    for name, anchors, decoding in (("grid", 0, "yolox"), ("anchors", 3, "yolov3")):
        net = NetworkBuilder(f"outputs-{name}", signed(6, 8, 16, zero_point=3))
        levels = []
        trunk = net.start
        for level in range(2):
            trunk = net.conv(trunk, 19, stride=(level + 1, level + 1), output=unsigned(1, 1, 1, zero_point=2))
            per_channel = partial(net.fixed, per_channel=True)
            count = max(1, anchors)
            boxes = net.conv(trunk, 4 * count, (1, 1), padding=NONE, weights=per_channel, form=None)
            objectness = net.conv(trunk, count, form=None)
            classes = net.conv(trunk, 5 * count, (1, 1), padding=NONE, output=signed(1, 1, 1, zero_point=-7))
            sides = tuple((8.0 * (level + 1), 5.0 + i) for i in range(anchors))
            levels.append(DetectionLevel(boxes, classes, objectness, sides))
        outputs = [name for level in levels for name in (level.classes, level.objectness, level.boxes) if name]
        labels = tuple(f"object {i}" for i in range(5))
        yield net.finish_as(Detection(labels, decoding, tuple(levels)), *outputs)
    net = NetworkBuilder("outputs-embedding", unsigned(1, 1, 3))
    yield net.finish_as(Embedding(), net.conv(net.start, 21, (1, 1), padding=NONE, output=SIGNED))
    net = NetworkBuilder("outputs-read-later", signed(5, 5, 8))
    first = net.conv(net.start, 4, output=SIGNED)
    classes = net.conv(first, 3, (1, 1), padding=NONE, output=SIGNED)
    task = Detection(("a", "b", "c"), "yolox", (DetectionLevel(first, classes),))
    yield net.finish_as(task, first, classes)


def residual_block(form: Form) -> Case:
    """Two 3x3 convolutions and a strided 1x1 shortcut, added and rectified."""
    table = form.startswith("table")
    kind = signed(1, 1, 1) if table else unsigned(1, 1, 1)
    inner = signed(1, 1, 1) if table else signed(1, 1, 1, zero_point=-12)
    net = NetworkBuilder(f"residual-block-{form}", signed(12, 10, 16))
    shortcut = net.conv(net.start, 32, (1, 1), (2, 2), NONE, form=form, output=inner)
    hidden = net.conv(net.start, 32, stride=(2, 2), form=form, output=kind)
    branch = net.conv(hidden, 32, form=form, output=inner)
    multipliers, shift = ((1, 1), 0) if table else ((777_777, 1_234_567), 20)
    return net.observe(net.add(branch, shortcut, multipliers=multipliers, shift=shift, relu=True))


def resnet8(form: Form) -> Case:
    """ResNet-8's shape with random weights: the shipped network, in one of its two requantize forms."""
    table = form.startswith("table")
    kind, inner = signed(1, 1, 1), signed(1, 1, 1, zero_point=0 if table else 6)
    multipliers, shift = ((1, 1), 0) if table else ((700_001, 1_048_577), 20)
    net = NetworkBuilder(f"resnet8-{form}", signed(32, 32, 3))
    trunk = net.conv(net.start, 16, form=form, output=kind)
    for channels in (16, 32, 64):
        stride = (1, 1) if channels == 16 else (2, 2)
        shortcut = trunk
        if channels != 16:
            shortcut = net.conv(trunk, channels, (1, 1), stride, NONE, form=form, output=inner)
        hidden = net.conv(trunk, channels, stride=stride, form=form, output=kind)
        branch = net.conv(hidden, channels, form=form, output=inner)
        trunk = net.add(branch, shortcut, multipliers=multipliers, shift=shift, relu=True)
    net.dense(net.average(trunk, (8, 8), form="multiplier-per-layer"), 10)
    return net.finish()


def inception() -> Case:
    """Branches of pools and convolutions, joined, shrunk, enlarged and joined again."""
    kind = unsigned(1, 1, 1, zero_point=30)
    net = NetworkBuilder("inception", unsigned(12, 12, 8, zero_point=30))
    narrow = net.conv(net.start, 6, (1, 1), padding=NONE, output=kind)
    wide = net.conv(net.start, 9, (5, 5), padding=(2, 2, 2, 2), output=kind)
    smooth = net.rescale(net.average(net.start, (3, 3), padding=SAME), kind, "multiplier-per-layer")
    joined = net.concat(narrow, wide, smooth, net.pool(MaxPool, net.start, (3, 3), (1, 1), SAME))
    small = net.conv(net.pool(MaxPool, joined, (2, 2), (2, 2), NONE), 5, output=kind)
    both = net.concat(net.upsample(small, (2, 2)), net.clamp(narrow, 30, 200))
    return net.observe(net.conv(both, 4, stride=(3, 3), groups=1, output=SIGNED, form="table"))


def graphs() -> Iterator[Case]:
    """Whole small networks."""
    for form in FORMS:
        yield residual_block(form)
    yield resnet8("table")
    yield resnet8("multiplier")
    yield inception()


CASES: tuple[Case, ...] = (
    *convolutions(),
    *depthwise(),
    *encodings(),
    *activations(),
    *requantizations(),
    *extremes(),
    *elementwise(),
    *tables(),
    *products(),
    *rearrangements(),
    *raw_outputs(),
    *several_outputs(),
    *first_layers(),
    *ties(),
    *fusions(),
    *graphs(),
    *four_bits(),
)
