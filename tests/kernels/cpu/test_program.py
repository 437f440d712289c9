"""Random networks in the library equal the reference, on every instruction set."""

import resource
from contextlib import closing
from ctypes import c_void_p
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.kernels.cpu.library import LibraryError, best_isa, supported_isas
from edgemeta.kernels.cpu.program import Program
from edgemeta.model import reference
from edgemeta.model.graph import INPUT
from edgemeta.model.layers import Conv, MaxPool, Multiplier, TensorType
from edgemeta.model.prove import prove
from tests.conformance.cases import CASES
from tests.conformance.networks import Case, NetworkBuilder, assert_equal_outputs

ISAS = supported_isas()
FORMS = st.sampled_from(["multiplier", "multiplier-per-layer", "table", "table-per-layer"])


@st.composite
def kinds(draw: st.DrawFn) -> TensorType:
    bits = draw(st.sampled_from([8, 8, 8, 5, 4, 2, 1]))
    kind = TensorType((1, 1, 1), bits, draw(st.booleans()))
    return replace(kind, zero_point=draw(st.integers(kind.lo, kind.hi)), scale=0.05)


@st.composite
def networks(draw: st.DrawFn) -> Case:
    """Up to six layers, each reading any earlier tensor; ends in a dense layer that sees the last one."""
    height, width = draw(st.integers(1, 13)), draw(st.integers(1, 37))
    source = replace(draw(kinds()), shape=(height, width, draw(st.sampled_from([1, 3]))))
    net = NetworkBuilder(f"random-{draw(st.integers(0, 2**20))}", source)
    names = [INPUT]
    for _ in range(draw(st.integers(1, 6))):
        names.append(draw_layer(draw, net, names))
    return net.observe(names[-1])


def draw_layer(draw: st.DrawFn, net: NetworkBuilder, names: list[str]) -> str:
    source = draw(st.sampled_from(names))
    kind = net.type_of(source)
    height, width, channels = kind.shape
    twins = [name for name in names if net.type_of(name).shape == kind.shape]
    match draw(st.sampled_from(["conv", "conv", "conv", "add", "clamp", "rescale", "max", "average", "concat", "up"])):
        case "conv":
            kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
            top, left, bottom, right = (draw(st.integers(0, kernel[i % 2] - 1)) for i in range(4))
            bottom, right = max(bottom, kernel[0] - height - top), max(right, kernel[1] - width - left)
            stride = (draw(st.integers(1, 2)), draw(st.integers(1, 2)))
            groups = draw(st.sampled_from([g for g in (1, 1, 2, channels) if channels % g == 0]))
            outputs = groups * draw(st.sampled_from([1, 3, 4, 8, 16, 17, 32]))
            if bottom >= kernel[0] or right >= kernel[1] or outputs > 64:
                return net.rescale(source, draw(kinds()), draw(FORMS))
            padding = (top, left, bottom, right)
            return net.conv(
                source, outputs, kernel, stride, padding, groups=groups, form=draw(FORMS), output=draw(kinds())
            )
        case "add":
            other = draw(st.sampled_from(twins))
            multipliers = (draw(st.integers(0, 2**21)), draw(st.integers(0, 2**21)))
            return net.add(source, other, multipliers=multipliers, shift=draw(st.integers(0, 29)))
        case "clamp":
            lo = draw(st.integers(kind.lo, kind.hi))
            return net.clamp(source, lo, draw(st.integers(lo, kind.hi)))
        case "max":
            side = min(2, height, width)
            return net.pool(MaxPool, source, (side, side), (side, side), (0, side - 1, 0, 0))
        case "average":
            return net.average(source, (height, width), form=draw(FORMS))
        case "concat":
            alike = [n for n in twins if replace(net.type_of(n), shape=(1, 1, 1)) == replace(kind, shape=(1, 1, 1))]
            return net.concat(source, draw(st.sampled_from(alike)))
        case "up" if height * width < 100:
            return net.upsample(source, (draw(st.integers(1, 2)), draw(st.integers(1, 3))))
    return net.rescale(source, draw(kinds()), draw(FORMS))


@settings(max_examples=80, deadline=None)
@given(case=networks(), threads=st.integers(1, 3))
def test_random_networks_equal_the_reference(case: Case, threads: int) -> None:
    check(case, threads)


def check(case: Case, threads: int = 1) -> None:
    prove(case.model)
    for isa in ISAS:
        program = Program(case.model, isa, threads)
        with closing(program):
            for name, batch in case.batches():
                expected = reference.run(case.model, batch)
                outputs = [np.zeros_like(each) for each in expected]
                addresses = (c_void_p * len(outputs))(*(output.ctypes.data for output in outputs))
                program.run(len(batch), batch.ctypes.data, addresses)
                assert_equal_outputs(outputs, expected, f"{isa} {name}")


MULTIPLIERS = st.integers(0, 2**31 - 1) | st.sampled_from([1, 2**30, 2**31 - 1])


@settings(max_examples=60, deadline=None)
@given(
    multipliers=st.lists(MULTIPLIERS, min_size=17, max_size=17),
    shifts=st.lists(st.one_of(st.integers(0, 62), st.integers(28, 44)), min_size=17, max_size=17),
    bias=st.integers(-(2**31) + 2**20, 2**31 - 1 - 2**20) | st.integers(-(2**17), 2**17),
    bounds=st.tuples(st.integers(0, 255), st.integers(0, 255)).map(sorted),
    zero_point=st.integers(0, 255),
    signed=st.booleans(),
)
def test_any_multiplier_equals_the_reference(multipliers, shifts, bias, bounds, zero_point, signed) -> None:
    """Each of 1,024 pixels has another accumulator, near `bias`; the float lines of AVX-512 are proved or left."""
    least = 128 if signed else 0
    net = NetworkBuilder(f"multiplier-{bias}", TensorType((32, 32, 3), signed=False))
    kind = TensorType((1, 1, 1), signed=signed, zero_point=zero_point - least)
    name = net.conv(INPUT, 17, (1, 1), padding=(0, 0, 0, 0), output=kind)
    layer = net.layers.pop()
    assert isinstance(layer, Conv)
    lo, hi = (bound - least for bound in bounds)
    requantize = Multiplier(np.array(multipliers, np.int32), np.array(shifts, np.uint8), lo, hi)
    net.append(replace(layer, bias=np.full(17, bias, np.int32), requantize=requantize))
    check(net.observe(name))


def steps_of(case: Case) -> list[str]:
    with closing(Program(case.model, best_isa(), 1)) as program:
        image = np.zeros((1, *case.model.input.shape), case.model.input.dtype)
        outputs = [np.zeros(kind.shape, kind.dtype) for kind in case.model.output_types]
        addresses = (c_void_p * len(outputs))(*(output.ctypes.data for output in outputs))
        return list(program.profile(image.ctypes.data, addresses))


def test_additions_are_fused_into_the_convolution_before_them(resnet8: Case) -> None:
    steps = steps_of(resnet8)
    layers = [layer.name for layer in resnet8.model.layers]
    assert sorted(name for step in steps for name in step.split("+")) == sorted(layers)
    if best_isa() != "portable":
        assert len(steps) == len(layers) - 3


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        ("table-after-depthwise", ["spread", "conv1+lookup2", "dense3"]),
        ("table-chain-of-image", ["clamp0+lookup1", "dense2"]),
        ("table-of-channels-between", ["spread", "conv1+lookup2+lookup3+lookup4", "dense5"]),
        ("table-two-readers", ["spread", "conv1", "lookup2", "lookup3", "dense5"]),
        ("space-to-depth-rows-3x3", ["conv5", "dense6"]),
        ("concat-16-32-16", ["spread", "conv1", "conv2", "conv3", "conv5", "conv6", "concat7", "dense8"]),
        ("split-and-join", ["spread", "conv1+lookup2", "conv5+add6", "concat7", "conv8", "dense9"]),
    ],
)
def test_layers_that_copy_or_follow_a_table_are_no_steps(name: str, steps: list[str]) -> None:
    assert steps_of(next(case for case in CASES if case.name == name)) == steps


@pytest.mark.parametrize("isa", ISAS)
def test_a_sum_after_weights_of_many_bits_is_a_step_of_its_own_where_kernels_take_none(isa: str) -> None:
    kind = TensorType((5, 6, 3), zero_point=3)
    net = NetworkBuilder("wide-sum", kind)
    wide = net.conv(INPUT, 3, (3, 3), weights=partial(net.binary, bases=2, reach=30_000), output=kind)
    case = net.observe(net.clamp(net.add(wide, INPUT, multipliers=(3, 5), shift=3), -9, 90))
    check(case)
    with closing(Program(case.model, isa, 1)) as program:
        image = np.zeros((1, *kind.shape), np.int8)
        outputs = [np.zeros(each.shape, each.dtype) for each in case.model.output_types]
        addresses = (c_void_p * len(outputs))(*(output.ctypes.data for output in outputs))
        steps = list(program.profile(image.ctypes.data, addresses))
    assert steps in (["conv0+add1+clamp2", "dense3"], ["conv0", "add1+clamp2", "dense3"])
    assert (len(steps) == 2) == (isa in ("avxvnni", "avx512vnni"))


def test_more_threads_than_memory_allows_is_an_error(resnet8: Case) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + (64 << 20), hard))
    try:
        with pytest.raises(LibraryError, match=r"unavailable|memory|alloc"):
            Program(resnet8.model, "auto", 256)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
