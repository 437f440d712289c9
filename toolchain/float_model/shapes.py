"""Checks a float graph: the shape of every tensor, and whether layers, outputs and preprocessing fit each other."""

from typing import get_args

import numpy as np

from edgemeta.model.errors import ModelError
from edgemeta.model.layers import Coordinates, slide
from edgemeta.model.prove_preprocessing import prove_colour
from edgemeta.model.prove_task import prove_outputs
from edgemeta.model.require import shown
from edgemeta.toolchain.errors import FloatModelError
from edgemeta.toolchain.float_model.functions import FUNCTIONS
from edgemeta.toolchain.float_model.graph import (
    INPUT,
    Add,
    BatchNorm,
    ChannelShuffle,
    Concat,
    Conv,
    Dense,
    Float32,
    FloatLayer,
    FloatModel,
    Function,
    GlobalAverage,
    Pad,
    Padding,
    Pair,
    Pool,
    Product,
    Relu,
    ResizeBilinear,
    Shape,
    Slice,
    Upsample,
    inputs_of,
)


def check(model: FloatModel, source: str) -> dict[str, Shape]:
    """Check that a graph is consistent and return the shape (H, W, C) of every tensor.

    Raises FloatModelError with `source`, the layer, what was found and what was expected.
    """
    shapes: dict[str, Shape] = {INPUT: model.input_shape}
    if len(model.input_shape) != 3 or min(model.input_shape) < 1:
        raise FloatModelError(f"{source}: input shape is {model.input_shape}, expected three positive numbers")
    for layer in model.layers:
        if layer.name in shapes:
            raise FloatModelError(f"{source}: two tensors are named {layer.name!r}, expected different names")
        for name in inputs_of(layer):
            if name not in shapes:
                raise FloatModelError(
                    f"{source}: layer {layer.name!r} reads {name!r}, expected the input or an earlier layer"
                )
        try:
            shapes[layer.name] = output_shape(layer, [shapes[n] for n in inputs_of(layer)])
        except MismatchError as error:
            raise FloatModelError(f"{source}: layer {layer.name!r}: {error}") from error
    for name in model.outputs:
        if name not in shapes:
            raise FloatModelError(f"{source}: output {name!r} is no tensor, expected the name of a layer")
    try:
        prove_outputs(model.task, {name: shapes[name] for name in model.outputs})
    except ModelError as error:
        raise FloatModelError(f"{source}: {error}") from None
    _check_preprocessing(model, source)
    return shapes


def _check_preprocessing(model: FloatModel, source: str) -> None:
    channels = model.input_shape[2]
    try:
        prove_colour(model.colour, channels)
    except ModelError as error:
        raise FloatModelError(f"{source}: {error}") from None
    fits = model.crop == "letterbox" or (model.fill, model.align) == ((0,), "center")
    fills = len(model.fill) in (1, channels) and all(0 <= value <= 255 for value in model.fill)
    if not (fits and fills):
        raise FloatModelError(
            f"{source}: crop is {model.crop!r}, fill {list(model.fill)}, align {model.align!r}, expected fill and "
            "align of a letterbox only, with 1 value 0 .. 255 or one for each channel"
        )
    counts = {len(model.mean), len(model.scale)} <= {1, channels}
    if not (counts and np.isfinite(model.mean).all() and np.isfinite(model.scale).all() and min(model.scale) > 0):
        raise FloatModelError(
            f"{source}: preprocessing is (pixel - {shown(model.mean)}) / {shown(model.scale)}, expected 1 or "
            f"{channels} finite numbers each, and scales above 0"
        )


class MismatchError(Exception):
    """An inconsistency in one layer; `check` adds the layer's name."""


def _expect(good: bool, text: str) -> None:
    if not good:
        raise MismatchError(text)


def _finite(**arrays: Float32 | None) -> None:
    for name, array in arrays.items():
        if array is not None:
            _expect(array.dtype == np.float32, f"{name} is {array.dtype}, expected float32")
            _expect(bool(np.isfinite(array).all()), f"{name} holds NaN or infinity, expected finite numbers")


def _vector(name: str, array: Float32 | None, length: int) -> None:
    if array is not None:
        _expect(array.shape == (length,), f"{name} has shape {array.shape}, expected ({length},)")


def _window(x: Shape, kernel: Pair, stride: Pair, padding: Padding) -> Pair:
    """The rule of the integer network: padding is less than the kernel covers; more of it is a Pad before."""
    try:
        return slide(x, kernel, stride, padding)
    except ModelError as error:
        raise MismatchError(str(error)) from None


def output_shape(layer: FloatLayer, inputs: list[Shape]) -> Shape:
    """Shape of a layer's output for the shapes of its inputs. Raises MismatchError."""
    x = inputs[0] if inputs else (0, 0, 0)
    if isinstance(layer, Conv):
        w = layer.weight
        _finite(weight=w, bias=layer.bias)
        _expect(w.ndim == 4 and min(w.shape) >= 1, f"weight has shape {w.shape}, expected four positive sizes")
        good = layer.groups >= 1 and w.shape[0] % layer.groups == 0 and w.shape[3] * layer.groups == x[2]
        _expect(good, f"weight {w.shape} in {layer.groups} groups does not fit {x[2]} input channels")
        _vector("bias", layer.bias, w.shape[0])
        _expect(min(layer.dilation) >= 1, f"dilation {layer.dilation} must be positive")
        covered = (w.shape[1] - 1) * layer.dilation[0] + 1, (w.shape[2] - 1) * layer.dilation[1] + 1
        return (*_window(x, covered, layer.stride, layer.padding), w.shape[0])
    if isinstance(layer, BatchNorm):
        parts = {"gamma": layer.gamma, "beta": layer.beta, "mean": layer.mean, "variance": layer.variance}
        _finite(**parts)
        for name, array in parts.items():
            _vector(name, array, x[2])
        good = bool(np.isfinite(layer.eps)) and layer.eps >= 0 and float(layer.variance.min()) + layer.eps > 0
        _expect(good, "variance + eps must be positive")
        return x
    if isinstance(layer, Relu):
        _expect(layer.ceiling is None or (np.isfinite(layer.ceiling) and layer.ceiling > 0), "ceiling must be positive")
        return x
    if isinstance(layer, Add):
        _expect(
            len(inputs) == 2 and inputs[0] == inputs[1], f"adds tensors of shapes {inputs}, expected two equal ones"
        )
        return x
    if isinstance(layer, Pool):
        return (*_window(x, layer.kernel, layer.stride, layer.padding), x[2])
    if isinstance(layer, GlobalAverage):
        return (1, 1, x[2])
    if isinstance(layer, Dense):
        _finite(weight=layer.weight, bias=layer.bias)
        size = x[0] * x[1] * x[2]
        good = layer.weight.ndim == 2 and layer.weight.shape[1] == size and layer.weight.shape[0] >= 1
        _expect(good, f"weight has shape {layer.weight.shape}, expected (outputs, {size})")
        _vector("bias", layer.bias, layer.weight.shape[0])
        return (1, 1, layer.weight.shape[0])
    if isinstance(layer, Concat):
        _expect(
            bool(inputs) and all(s[:2] == x[:2] for s in inputs),
            f"concatenates tensors of shapes {inputs}, expected equal heights and widths",
        )
        return (x[0], x[1], sum(s[2] for s in inputs))
    if isinstance(layer, Upsample):
        _expect(min(layer.factor) >= 1, f"factor {layer.factor} must be positive")
        return (x[0] * layer.factor[0], x[1] * layer.factor[1], x[2])
    return _rearranged(layer, x, inputs)


def _rearranged(
    layer: Function | Product | Pad | Slice | ChannelShuffle | ResizeBilinear, x: Shape, inputs: list[Shape]
) -> Shape:
    match layer:
        case Function():
            _expect(layer.function in FUNCTIONS, f"function is {layer.function!r}, expected one of {list(FUNCTIONS)}")
            _expect(bool(np.isfinite([layer.alpha, layer.beta]).all()), "alpha and beta must be finite")
            return x
        case Product():
            fits = len(inputs) == 2 and inputs[1] in (x, (1, 1, x[2]))
            _expect(fits, f"multiplies tensors of shapes {inputs}, expected equal ones or one factor per channel")
            return x
        case Pad():
            _expect(min(layer.padding) >= 0, f"padding {layer.padding} must not be negative")
            _expect(min(layer.spacing) >= 1, f"spacing {layer.spacing} must be positive")
            rows = layer.padding[0] + (x[0] - 1) * layer.spacing[0] + 1 + layer.padding[2]
            return rows, layer.padding[1] + (x[1] - 1) * layer.spacing[1] + 1 + layer.padding[3], x[2]
        case Slice():
            spans = tuple(zip(layer.start, layer.stop, layer.step, x, strict=True))
            good = all(0 <= start < stop <= side and step >= 1 for start, stop, step, side in spans)
            _expect(good, f"takes {layer.start} .. {layer.stop} by {layer.step} of a tensor of shape {x}")
            rows, columns, channels = (-(-(stop - start) // step) for start, stop, step, _ in spans)
            return rows, columns, channels
        case ChannelShuffle():
            _expect(layer.groups >= 1 and x[2] % layer.groups == 0, f"{layer.groups} groups do not fit {x[2]} channels")
            return x
        case ResizeBilinear():
            _expect(min(layer.size) >= 1, f"size {layer.size} must be positive")
            good = layer.coordinates in get_args(Coordinates)
            _expect(good, f"coordinates is {layer.coordinates!r}, expected one of {list(get_args(Coordinates))}")
            return (*layer.size, x[2])
