"""Steps of random graphs: every layer is done once, in an order that works, and nothing that is needed is lost."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.kernels.cuda.lowering import FUSIONS, step_of
from edgemeta.kernels.lowering import fusion
from edgemeta.kernels.lowering.steps import ConvStep, LayerStep, PoolDenseStep, Step
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import Add, AveragePool, Clamp, Conv, Dense, TensorType
from edgemeta.model.weights import BinaryWeights
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import NetworkBuilder
from tests.parts import by_name, in_parts

NONE = (0, 0, 0, 0)


def fuse(model: Model) -> tuple[Step, ...]:
    """With CUDA's fusions."""
    return fusion.fuse(model, FUSIONS)


def assert_sound(model: Model, steps: tuple[Step, ...]) -> None:
    """Properties of every fusion."""
    done = Counter(layer.name for step in steps for layer in step.layers)
    assert done == Counter(layer.name for layer in model.layers)
    written = {INPUT}
    for step in steps:
        assert written.issuperset(step.reads), step
        written.update(step.writes)
    assert written.issuperset(model.outputs)
    inside = {layer.name for step in steps for layer in step.layers} - written
    for step in steps:
        members = {layer.name for layer in step.layers}
        for layer in step.layers:
            for name in layer.sources:
                assert name in written or name in members, f"{layer.name} reads {name}, which nobody wrote"
    for name in inside:
        assert sum(name in layer.sources for layer in model.layers) == 1


@st.composite
def graphs(draw: st.DrawFn) -> Model:
    """Convolutions, additions, clamps and rescales on maps of two sizes, reading any earlier tensor that fits."""
    net = NetworkBuilder(f"graph-{draw(st.integers(0, 10**6))}", TensorType((4, 4, 3)))
    tensors = {INPUT: (4, 4, 3)}
    for _ in range(draw(st.integers(1, 9))):
        source = draw(st.sampled_from(sorted(tensors)))
        shape = tensors[source]
        match draw(st.sampled_from(["conv", "pointwise", "add", "clamp", "rescale"])):
            case "conv":
                stride = draw(st.sampled_from([(1, 1), (2, 2)]))
                made = net.conv(source, 3, stride=stride)
            case "pointwise":
                stride = draw(st.sampled_from([(1, 1), (2, 2)]))
                made = net.conv(source, 3, (1, 1), stride, NONE)
            case "add":
                other = draw(st.sampled_from(sorted(name for name, each in tensors.items() if each == shape)))
                made = net.add(source, other, multipliers=(1, 1), shift=1)
            case "clamp":
                made = net.clamp(source, -100, 100)
            case _:
                made = net.rescale(source, TensorType((1, 1, 1)), "table")
        tensors[made] = net.type_of(made).shape
    source = draw(st.sampled_from(sorted(tensors)))
    pooled = net.average(source, tensors[source][:2])
    net.dense(pooled if draw(st.booleans()) else source, 2)
    return net.finish().model


@settings(max_examples=150)
@given(graphs())
def test_random_graphs(model: Model) -> None:
    steps = fuse(model)
    assert_sound(model, steps)
    for step in steps:
        if isinstance(step, ConvStep) and step.shortcut is not None:
            assert step.shortcut.input == step.conv.input
            assert step.shortcut.stride == step.conv.stride
            assert step.shortcut.output.shape[:2] == step.conv.output.shape[:2]


@in_parts(by_name(CASES))
def test_every_case_can_be_fused(case: Case) -> None:
    assert_sound(case.model, fuse(case.model))


def test_resnet8_is_eight_launches() -> None:
    """Figure 7: every shortcut is computed beside the convolution before the one that adds it."""
    case = next(case for case in CASES if case.name == "resnet8-table")
    kinds = [[type(layer) for layer in step.layers] for step in fuse(case.model)]
    block = [[Conv, Conv], [Conv, Add]]
    assert kinds == [[Conv], [Conv], [Conv, Add], *block, *block, [AveragePool, Dense]]


def test_a_tensor_with_two_readers_is_written() -> None:
    net = NetworkBuilder("two-readers", TensorType((4, 4, 3)))
    shared = net.conv(INPUT, 3)
    added = net.add(shared, INPUT, multipliers=(1, 1), shift=0)
    net.dense(net.add(added, shared, multipliers=(1, 1), shift=0), 2)
    first, second, third, last = fuse(net.finish().model)
    assert isinstance(first, ConvStep)
    assert first.writes == (shared,)
    assert isinstance(second, LayerStep)
    assert isinstance(third, LayerStep)
    assert isinstance(last, PoolDenseStep)


def test_an_output_tensor_is_written() -> None:
    net = NetworkBuilder("early-output", TensorType((1, 1, 3)))
    conv = net.conv(INPUT, 3, (1, 1), padding=NONE)
    net.clamp(conv, 0, 9)
    model = net.finish().model
    early = Model(model.name, model.input, model.layers, (conv,), model.task, model.preprocessing)
    assert [step.writes for step in fuse(early)] == [(conv,), (model.layers[-1].name,)]


def test_clamps_are_fused_into_the_convolution() -> None:
    net = NetworkBuilder("clamps", TensorType((4, 4, 3)))
    net.observe(net.clamp(net.clamp(net.conv(INPUT, 3), -50, 60), -10, 90))
    first, _ = fuse(net.finish().model)
    assert isinstance(first, ConvStep)
    assert [type(layer) for layer in first.layers] == [Conv, Clamp, Clamp]


def test_a_shortcut_that_would_form_a_cycle_is_not_fused() -> None:
    """The strided convolution adds the shortcut itself: beside it, it would wait for its own result."""
    net = NetworkBuilder("circle", TensorType((4, 4, 3)))
    shortcut = net.conv(INPUT, 3, (1, 1), (2, 2), NONE)
    main = net.conv(INPUT, 3, (3, 3), (2, 2))
    net.observe(net.add(main, shortcut, multipliers=(1, 1), shift=0))
    steps = fuse(net.finish().model)
    assert [step.writes for step in steps[:2]] == [(shortcut,), ("add2",)]


def test_a_raw_dense_layer_alone_is_a_step() -> None:
    net = NetworkBuilder("raw", TensorType((2, 2, 3)))
    net.dense(INPUT, 4)
    (step,) = fuse(net.finish().model)
    assert [type(layer) for layer in step.layers] == [Dense]


@pytest.mark.parametrize(("factors", "step"), [((32767,), ConvStep), ((32767, 1), LayerStep), ((-32768,), LayerStep)])
def test_weights_of_more_than_16_bits_have_a_step_of_their_own(factors: tuple[int, ...], step: type[Step]) -> None:
    """One basis of both signs, or two: the greatest weight is the sum of the factors' magnitudes, and its negative."""
    basis = np.ones((len(factors), 2, 1, 1, 3), np.int8)
    basis[:, 1] = -1
    weights = BinaryWeights(basis, np.array([factors, factors], np.int16), np.ones(1))
    conv = Conv("conv", INPUT, TensorType((4, 4, 2), bits=32), weights=weights)
    assert isinstance(step_of(conv, [TensorType((4, 4, 3))]), step)
