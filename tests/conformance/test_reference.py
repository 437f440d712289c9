"""The reference against the oracle of explicit loops, and its convolutions against PyTorch."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from edgemeta.model.layers import Conv, Coordinates, MaxPool, Pair, TensorType
from edgemeta.model.prove import prove
from edgemeta.model.reference import run, trace
from tests.conformance import oracle
from tests.conformance.cases import CASES, Case
from tests.conformance.networks import Form, NetworkBuilder
from tests.parts import by_name, in_parts


def assert_equal_traces(case: Case) -> None:
    prove(case.model)
    batch = np.concatenate([batch for _, batch in case.batches()])
    expected = oracle.trace(case.model, batch)
    for name, tensor in trace(case.model, batch).items():
        np.testing.assert_array_equal(tensor, expected[name], err_msg=name)


@in_parts(by_name(CASES))
def test_every_tensor_equals_the_oracle(case: Case) -> None:
    assert_equal_traces(case)


sides = st.integers(1, 9)
forms: st.SearchStrategy[Form] = st.sampled_from(["multiplier", "multiplier-per-layer", "table", "table-per-layer"])


@st.composite
def tensor_types(draw: st.DrawFn, channels: int | None = None) -> TensorType:
    bits, is_signed = draw(st.integers(1, 8)), draw(st.booleans())
    plain = TensorType((draw(sides), draw(sides), channels or draw(st.integers(1, 12))), bits, is_signed)
    zero_point = draw(st.integers(plain.lo, plain.hi))
    return TensorType(plain.shape, bits, is_signed, zero_point, 0.5)


@st.composite
def windows(draw: st.DrawFn, source: TensorType) -> dict[str, tuple[int, ...]]:
    kernel = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    stride = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    padding = tuple(draw(st.integers(0, side - 1)) for side in kernel * 2)
    assume(all(source.shape[i] + padding[i] + padding[i + 2] >= kernel[i] for i in (0, 1)))
    return {"kernel": kernel, "stride": stride, "padding": padding}


@settings(max_examples=150, deadline=None)
@given(st.data(), forms, st.integers(0, 10**9))
def test_random_convolutions(data: st.DataObject, form: Form, seed: int) -> None:
    groups, depth, filters = (data.draw(st.integers(1, 4), label) for label in ("groups", "depth", "filters"))
    source = data.draw(tensor_types(groups * depth))
    net = NetworkBuilder(f"random-{seed}", source)
    window = data.draw(windows(source))
    encoding = data.draw(st.sampled_from(["fixed", "power_of_two", "binary"]))
    width = data.draw(
        {"fixed": st.integers(1, 8), "power_of_two": st.integers(2, 5), "binary": st.integers(1, 8)}[encoding]
    )
    made = net.conv(
        net.start,
        groups * filters,
        **window,
        groups=groups,
        weights=lambda shape: getattr(net, encoding)(shape, width),
        form=form,
        output=data.draw(tensor_types()),
        with_bias=data.draw(st.booleans()),
    )
    assert_equal_traces(net.observe(made))


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(0, 10**9), forms)
def test_random_pools_sums_and_rescales(data: st.DataObject, seed: int, form: Form) -> None:
    source = data.draw(tensor_types())
    net = NetworkBuilder(f"random-{seed}", source)
    rescaled = net.rescale(net.start, data.draw(tensor_types()), form)
    multipliers = data.draw(st.tuples(st.integers(0, 2**21), st.integers(0, 2**21)))
    added = net.add(
        rescaled, net.start, multipliers=multipliers, shift=data.draw(st.integers(0, 29)), relu=seed % 2 == 0
    )
    kind = net.type_of(added)
    lo = data.draw(st.integers(kind.lo, kind.hi))
    clamped = net.clamp(added, lo, data.draw(st.integers(lo, kind.hi)))
    window = data.draw(windows(source))
    pooled = net.pool(MaxPool, clamped, **window)
    averaged = net.average(clamped, **window, form=form)
    joined = net.concat(pooled, averaged, pooled)
    enlarged = net.upsample(joined, (data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))))
    net.dense(enlarged, 4, form=form, output=data.draw(tensor_types()))
    assert_equal_traces(net.finish())


@in_parts(by_name(CASES))
def test_convolutions_equal_pytorch(case: Case) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is missing (extra `train`)")
    ((_, batch), *_) = case.batches()
    tensors = trace(case.model, batch)
    types = case.model.types
    for layer in case.model.layers:
        if not isinstance(layer, Conv):
            continue
        x = torch.from_numpy(oracle.real(layer.input, tensors, types).transpose(0, 3, 1, 2).astype(np.float64))
        top, left, bottom, right = layer.padding
        sums = torch.nn.functional.conv2d(
            torch.nn.functional.pad(x, (left, right, top, bottom)),
            torch.from_numpy(layer.weights.decode().transpose(0, 3, 1, 2).astype(np.float64)),
            None if layer.bias is None else torch.from_numpy(layer.bias.astype(np.float64)),
            stride=layer.stride,
            groups=layer.groups,
            dilation=layer.dilation,
        )
        integers = sums.numpy().transpose(0, 2, 3, 1).astype(np.int64)
        expected = oracle.requantized(integers, layer.requantize, layer.output)
        np.testing.assert_array_equal(tensors[layer.name], expected)


@pytest.mark.parametrize(("kernel", "stride", "cut", "more"), [(3, 2, 1, 1), (4, 2, 1, 0), (2, 2, 0, 0), (5, 3, 2, 1)])
def test_a_pad_and_a_convolution_are_a_transposed_convolution(kernel: int, stride: int, cut: int, more: int) -> None:
    """PyTorch's padding is cut from the result, its output_padding added below and right."""
    torch = pytest.importorskip("torch", reason="PyTorch is missing (extra `train`)")
    net = NetworkBuilder(f"transposed-{kernel}-{stride}", TensorType((5, 6, 3), zero_point=-11))
    before, after = kernel - 1 - cut, kernel - 1 - cut + more
    spread = net.pad(net.start, (before, before, after, after), (stride, stride))
    name = net.conv(spread, 4, (kernel, kernel), padding=(0, 0, 0, 0), form="multiplier-per-layer")
    case = net.observe(name)
    ((_, batch), *_) = case.batches()
    conv = next(layer for layer in case.model.layers if isinstance(layer, Conv))
    flipped = conv.weights.decode()[:, ::-1, ::-1].transpose(3, 0, 1, 2).astype(np.float64)
    sums = torch.nn.functional.conv_transpose2d(
        torch.from_numpy((batch.astype(np.float64) + 11).transpose(0, 3, 1, 2)),
        torch.from_numpy(flipped.copy()),
        torch.from_numpy(np.asarray(conv.bias, np.float64)),
        stride=stride,
        padding=cut,
        output_padding=more,
    )
    integers = sums.numpy().transpose(0, 2, 3, 1).astype(np.int64)
    expected = oracle.requantized(integers, conv.requantize, conv.output)
    np.testing.assert_array_equal(trace(case.model, batch)[name], expected)


@pytest.mark.parametrize("size", [(10, 12), (13, 7), (3, 2), (5, 6)], ids=str)
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners"])
def test_a_bilinear_resize_is_pytorch_s_within_its_weights_11_bits(coordinates: Coordinates, size: Pair) -> None:
    """Two weights are each off by at most half of 2**-11, of differences of at most 255; then it is rounded."""
    torch = pytest.importorskip("torch", reason="PyTorch is missing (extra `train`)")
    net = NetworkBuilder("bilinear", TensorType((5, 6, 3)))
    name = net.bilinear(net.start, size, coordinates)
    case = net.observe(name)
    ((_, batch), *_) = case.batches()
    x = torch.from_numpy(batch.transpose(0, 3, 1, 2).astype(np.float64))
    corners = coordinates == "align_corners"
    expected = torch.nn.functional.interpolate(x, size, mode="bilinear", align_corners=corners).numpy()
    off = np.abs(trace(case.model, batch)[name] - expected.transpose(0, 2, 3, 1)).max()
    assert off <= 0.5 + 2 * 255 / 2**12


@pytest.mark.parametrize(
    "batch",
    [np.zeros((1, 32, 32, 3), np.uint8), np.zeros((0, 32, 32, 3), np.int8), np.zeros((32, 32, 3), np.int8)],
    ids=["dtype", "empty", "no-batch-axis"],
)
def test_a_wrong_batch_is_named(batch: np.ndarray) -> None:
    net = NetworkBuilder("wrong-batch", TensorType((32, 32, 3)))
    net.dense(net.start, 2)
    with pytest.raises(ValueError, match=r"expected int8 \[N, 32, 32, 3\]"):
        run(net.finish().model, batch)


def test_large_batches_equal_single_images() -> None:
    net = NetworkBuilder("batching", TensorType((32, 32, 3)))
    net.dense(net.conv(net.start, 16, stride=(3, 3)), 4)
    model = net.finish().model
    batch = np.random.default_rng(1).integers(-128, 128, (200, 32, 32, 3)).astype(np.int8)
    (together,) = run(model, batch)
    single = [run(model, batch[i : i + 1])[0] for i in range(len(batch))]
    np.testing.assert_array_equal(together, np.concatenate(single))
