"""Our integer network as an int8 TFLite file, so that LiteRT runs the same layers on the same integers of weights.

Unsigned tensors become int8 with a zero point less by 128. TFLite pads a window on both sides by its own rule (SAME):
where ours pads otherwise, as at stride 2, the same number of products is computed at a place one pixel away. So the
file is for times, not for labels.
"""

from pathlib import Path

import numpy as np

from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import Add, AveragePool, Conv, Dense, Layer, MaxPool, TensorType
from tests.toolchain.importer.tflite_writer import Scale, TfliteNet

_SAME, _VALID = 0, 1


def write_tflite(model: Model, path: Path) -> Path:
    """Write PATH: int8 input [1, H, W, C], int8 output of the model's first output.

    Knows Conv (dense and depthwise), Dense, Add, MaxPool and AveragePool; raises ValueError on another layer.
    """
    net = TfliteNet()
    types = model.types
    image = net.tensor((1, *model.input.shape), "int8", _scale(model.input))
    numbers = {INPUT: image}
    for layer in model.layers:
        numbers[layer.name] = _operation(net, layer, types, numbers)
    return net.write(path, image, [numbers[model.outputs[0]]])


def _scale(kind: TensorType) -> Scale:
    return Scale((kind.scale,), (kind.zero_point - (0 if kind.signed else 128),))


def _operation(net: TfliteNet, layer: Layer, types: dict[str, TensorType], numbers: dict[str, int]) -> int:
    shape = (1, *layer.output.shape)
    match layer:
        case Conv():
            return _convolution(net, layer, types[layer.input], numbers[layer.input])
        case Dense():
            weights = net.constant(layer.weights.decode().astype(np.int8), Scale(_per_channel(layer)))
            inputs = [numbers[layer.input], weights, _bias(net, layer, types[layer.input])]
            return net("FULLY_CONNECTED", inputs, (1, shape[-1]), "FullyConnectedOptions", _scale(layer.output))
        case Add():
            inputs = [numbers[name] for name in layer.inputs]
            return net("ADD", inputs, shape, "AddOptions", _scale(layer.output))
        case MaxPool() | AveragePool():
            source = types[layer.input]
            name = "MAX_POOL_2D" if isinstance(layer, MaxPool) else "AVERAGE_POOL_2D"
            return net(
                name,
                [numbers[layer.input]],
                shape,
                "Pool2DOptions",
                Padding=_padding(source, layer.output, layer.stride),
                StrideH=layer.stride[0],
                StrideW=layer.stride[1],
                FilterHeight=layer.kernel[0],
                FilterWidth=layer.kernel[1],
            )
    raise ValueError(f"{layer.name}: {type(layer).__name__} has no TFLite form here")


def _convolution(net: TfliteNet, layer: Conv, source: TensorType, number: int) -> int:
    is_depthwise = layer.groups > 1
    if is_depthwise and not layer.groups == source.shape[2] == layer.output.shape[2]:
        raise ValueError(f"{layer.name}: a grouped convolution has no TFLite form here")
    decoded = layer.weights.decode().astype(np.int8)
    shaped = decoded.transpose(3, 1, 2, 0) if is_depthwise else decoded
    weights = net.constant(np.ascontiguousarray(shaped), Scale(_per_channel(layer), axis=3 if is_depthwise else 0))
    return net(
        "DEPTHWISE_CONV_2D" if is_depthwise else "CONV_2D",
        [number, weights, _bias(net, layer, source)],
        (1, *layer.output.shape),
        "DepthwiseConv2DOptions" if is_depthwise else "Conv2DOptions",
        _scale(layer.output),
        Padding=_padding(source, layer.output, layer.stride),
        StrideH=layer.stride[0],
        StrideW=layer.stride[1],
        **({"DepthMultiplier": 1} if is_depthwise else {}),
    )


def _padding(source: TensorType, output: TensorType, stride: tuple[int, int]) -> int:
    """SAME where the output is as large as that gives."""
    is_same = all(-(-source.shape[axis] // stride[axis]) == output.shape[axis] for axis in (0, 1))
    return _SAME if is_same else _VALID


def _per_channel(layer: Conv | Dense) -> tuple[float, ...]:
    outputs = len(layer.weights.decode())
    return tuple(float(scale) for scale in np.broadcast_to(layer.weights.scale, outputs))


def _bias(net: TfliteNet, layer: Conv | Dense, source: TensorType) -> int:
    scales = _per_channel(layer)
    values = np.zeros(len(scales), np.int32) if layer.bias is None else np.ascontiguousarray(layer.bias, np.int32)
    return net.constant(values, Scale(tuple(scale * source.scale for scale in scales)))
