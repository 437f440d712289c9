"""The float32 network: equal to PyTorch within rounding for all shapes, fused like the integer network."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.gpu.float_network import float_plan_of
from edgemeta.kernels.cuda.compile.compiler import CompilerError, wheel_compiler
from edgemeta.kernels.cuda.compile.resources import violations
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.float_file import load_float_model
from edgemeta.model.zoo import find
from edgemeta_proof.baselines.float32.launch import FloatConv, FloatHead, float_plan
from edgemeta_proof.baselines.float32.paper import paper_float_plan
from tests.conformance.networks import assert_equal_outputs
from tests.emulation.executor import Emulator

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

Float32 = NDArray[np.float32]

SM_53 = ARCHITECTURES["sm_53"]
OTHERS = ("sm_62", "sm_72", "sm_90")
SHIPPED = load_float_model(find("resnet8-cifar10-float"))


def assert_near(found: Float32, expected: Any) -> None:
    """Every logit within 1e-4 of the largest."""
    expected = expected.numpy()
    assert found.dtype == np.float32
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max()


def test_the_shipped_network_agrees_with_pytorch() -> None:
    from benchmarks.gpu.torch_network import torch_resnet8

    x = np.random.default_rng(0).normal(0, 0.5, (2, 32, 32, 3)).astype(np.float32)
    with torch.inference_mode():
        expected = torch_resnet8(SHIPPED)(torch.from_numpy(x).permute(0, 3, 1, 2))
    assert_near(Emulator(float_plan_of(SHIPPED, SM_53), mode="quick").run(x)[0].reshape(len(x), -1), expected)


def test_the_papers_design_agrees_with_pytorch() -> None:
    """Winograd and the simple convolution, the row "not quantized" of the paper's table 2."""
    from benchmarks.gpu.torch_network import torch_resnet8

    x = np.random.default_rng(2).normal(0, 0.5, (1, 32, 32, 3)).astype(np.float32)
    with torch.inference_mode():
        expected = torch_resnet8(SHIPPED)(torch.from_numpy(x).permute(0, 3, 1, 2))
    plan = float_plan_of(SHIPPED, SM_53, paper_float_plan)
    entries = [launch.source.entry for launch in plan.launches]
    assert entries.count("float32_winograd") == 5
    assert entries.count("float32_map") == 2
    assert_near(Emulator(plan, mode="quick").run(x)[0].reshape(len(x), -1), expected)


@pytest.mark.gate("6 s of processor time: modules with every access checked, of a baseline")
def test_the_shipped_network_has_no_races_and_no_access_out_of_bounds() -> None:
    x = np.random.default_rng(1).normal(0, 0.5, (1, 32, 32, 3)).astype(np.float32)
    plan = float_plan_of(SHIPPED, SM_53)
    in_order, shuffled = Emulator(plan, mode="checked").run(x), Emulator(plan, order=5).run(x)
    assert_equal_outputs(shuffled, in_order)


def test_batch_norm_addition_and_shortcut_are_fused_into_one_launch() -> None:
    launches = [launch.layers for launch in float_plan_of(SHIPPED, SM_53).launches]
    assert launches == [
        ("conv0",),
        ("conv1",),
        ("add2",),
        ("conv4", "conv3"),
        ("add5",),
        ("conv7", "conv6"),
        ("add8",),
        ("fc",),
    ]


@pytest.mark.parametrize(
    "name",
    [
        "sm_53",
        "sm_87",
        *(pytest.param(name, marks=pytest.mark.gate("2 s each: a baseline, on more devices")) for name in OTHERS),
    ],
)
def test_it_compiles_within_the_limits_of_every_generation(name: str) -> None:
    try:
        compiler = wheel_compiler()
    except CompilerError as error:
        pytest.skip(str(error))
    plan = float_plan_of(SHIPPED, ARCHITECTURES[name])
    for launch in plan.launches:
        resources = compiler.build(launch.source, plan.architecture).resources
        assert list(violations(launch, resources, plan.architecture)) == []


@st.composite
def networks(draw: st.DrawFn) -> tuple[Float32, list[FloatConv], FloatHead]:
    """One convolution of any shape, with or without shortcut; a second one that adds a residual; mean and dense."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    height, width, channels = draw(st.integers(3, 11)), draw(st.integers(3, 19)), draw(st.integers(1, 21))
    outputs, kernel, stride = draw(st.integers(1, 20)), draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([1, 2]))
    padding = tuple(draw(st.integers(0, kernel - 1)) for _ in range(4))
    x = rng.normal(0, 1, (2, height, width, channels)).astype(np.float32)

    def conv(name: str, source: str, size: int, inputs: int, **rest: Any) -> FloatConv:
        weight = rng.normal(0, 0.5, (outputs, size, size, inputs)).astype(np.float32)
        return FloatConv(name, source, weight, rng.normal(0, 1, outputs).astype(np.float32), **rest)

    strides = (stride, stride)
    one_size = (height + padding[0] + padding[2] - kernel) // stride == (height - 1) // stride and (
        width + padding[1] + padding[3] - kernel
    ) // stride == (width - 1) // stride
    shortcut = None
    if one_size and draw(st.booleans()):
        shortcut = conv("s", "input", 1, channels, stride=strides, padding=(0, 0, 0, 0), relu=False)
    first = conv(
        "a", "input", kernel, channels, stride=strides, padding=padding, relu=draw(st.booleans()), shortcut=shortcut
    )
    residual = draw(st.sampled_from([None, "a", "s"] if shortcut else [None, "a"]))
    second = conv("b", "a", 3, outputs, stride=(1, 1), padding=(1, 1, 1, 1), relu=True, residual=residual)
    weight = rng.normal(0, 0.5, (7, outputs)).astype(np.float32)
    return x, [first, second], FloatHead("fc", "b", weight, rng.normal(0, 1, 7).astype(np.float32))


@settings(max_examples=8)
@given(networks())
def test_any_shape_agrees_with_pytorch(network: tuple[Float32, list[FloatConv], FloatHead]) -> None:
    x, convolutions, head = network
    plan = float_plan(x.shape[1:], convolutions, head, SM_53)
    assert_near(Emulator(plan, mode="quick").run(x)[0].reshape(len(x), -1), torch_logits(x, convolutions, head))


def test_a_shortcut_of_another_shape_is_refused() -> None:
    weight = np.zeros((4, 3, 3, 3), np.float32)
    bias = np.zeros(4, np.float32)
    wide = FloatConv("s", "input", weight, bias, (2, 2), (1, 1, 1, 1), relu=False)
    conv = FloatConv("a", "input", weight, bias, (2, 2), (1, 1, 1, 1), relu=True, shortcut=wide)
    head = FloatHead("fc", "a", np.zeros((2, 4), np.float32), np.zeros(2, np.float32))
    with pytest.raises(
        UnsupportedError, match=r"s: not a valid shortcut of a, expected a 1x1 convolution of 'input' with"
    ):
        float_plan((8, 8, 3), [conv], head, SM_53)


def torch_logits(x: Float32, convolutions: list[FloatConv], head: FloatHead) -> Any:
    tensors = {"input": torch.from_numpy(x).permute(0, 3, 1, 2)}
    for conv in convolutions:
        if conv.shortcut is not None:
            tensors[conv.shortcut.name] = torch_conv(tensors, conv.shortcut)
        tensors[conv.name] = torch_conv(tensors, conv)
    return torch.nn.functional.linear(
        tensors["b"].mean((2, 3)), torch.from_numpy(head.weight), torch.from_numpy(head.bias)
    )


def torch_conv(tensors: dict[str, Any], conv: FloatConv) -> Any:
    top, left, bottom, right = conv.padding
    x = torch.nn.functional.pad(tensors[conv.input], (left, right, top, bottom))
    weight = torch.from_numpy(conv.weight).permute(0, 3, 1, 2)
    y = torch.nn.functional.conv2d(x, weight, torch.from_numpy(conv.bias), conv.stride)
    if conv.residual is not None:
        y = y + tensors[conv.residual]
    return y.relu() if conv.relu else y
