"""Records of the float graph: a trained network before quantization, independent of any framework.

Tensors are float32 in N, H, W, C order; convolution weights are [O, KH, KW, I / groups], as in the integer graph
(`edgemeta.model.layers`). Layers run in the given order and read "input" or outputs of earlier layers; a layer's output
tensor has the layer's name. The input is (pixel - mean) / scale, of each channel.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Coordinates
from edgemeta.model.tasks import Classification, Task, labels_of
from edgemeta.toolchain.float_model.functions import FunctionName

INPUT = "input"

Float32: TypeAlias = NDArray[np.float32]
Shape: TypeAlias = tuple[int, int, int]
Pair: TypeAlias = tuple[int, int]
Crop: TypeAlias = Literal["center", "full", "letterbox"]
Align: TypeAlias = Literal["center", "corner"]
Padding: TypeAlias = tuple[int, int, int, int]
"""Rows above, columns left, rows below, columns right; padding is zero."""


@dataclass(frozen=True, eq=False)
class Conv:
    """Cross-correlation: y[o] = bias[o] + sum over taps and channels of weight * x; padding adds zeros.

    padding: on every side less than the kernel covers; more is a `Pad` before. dilation: elements from one tap to the
    next.
    """

    name: str
    input: str
    weight: Float32
    bias: Float32 | None = None
    stride: Pair = (1, 1)
    padding: Padding = (0, 0, 0, 0)
    groups: int = 1
    dilation: Pair = (1, 1)


@dataclass(frozen=True, eq=False)
class BatchNorm:
    """y[c] = gamma[c] * (x[c] - mean[c]) / sqrt(variance[c] + eps) + beta[c]; all [C]."""

    name: str
    input: str
    gamma: Float32
    beta: Float32
    mean: Float32
    variance: Float32
    eps: float = 1e-5


@dataclass(frozen=True)
class Relu:
    """y = max(x, 0), limited to `ceiling` if given (6 for ReLU6)."""

    name: str
    input: str
    ceiling: float | None = None


@dataclass(frozen=True)
class Add:
    """y = a + b, of one shape."""

    name: str
    inputs: tuple[str, str]


@dataclass(frozen=True)
class Pool:
    """Greatest value ("max"; padding is ignored) or mean over the whole kernel ("average"; padding counts as 0)."""

    name: str
    input: str
    kind: Literal["max", "average"]
    kernel: Pair
    stride: Pair
    padding: Padding = (0, 0, 0, 0)


@dataclass(frozen=True)
class GlobalAverage:
    """The mean over rows and columns; output (1, 1, C)."""

    name: str
    input: str


@dataclass(frozen=True, eq=False)
class Dense:
    """y = weight x + bias over the input flattened in H, W, C order; weight [O, I], bias [O]; output (1, 1, O)."""

    name: str
    input: str
    weight: Float32
    bias: Float32 | None = None


@dataclass(frozen=True)
class Concat:
    """Concatenates the channels of all inputs."""

    name: str
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Upsample:
    """Nearest neighbour: y[i, j] = x[i // factor_y, j // factor_x]."""

    name: str
    input: str
    factor: Pair


@dataclass(frozen=True)
class Function:
    """y = f(x), element by element; f and its alpha and beta: `functions.evaluate`."""

    name: str
    input: str
    function: FunctionName
    alpha: float = 0.0
    beta: float = 0.0


@dataclass(frozen=True)
class Product:
    """y = a * b; b has the shape of a, or (1, 1, C): one factor per channel."""

    name: str
    inputs: tuple[str, str]


@dataclass(frozen=True)
class Pad:
    """y[top + i * spacing_y, left + j * spacing_x] = x[i, j], zero elsewhere."""

    name: str
    input: str
    padding: Padding
    spacing: Pair = (1, 1)


@dataclass(frozen=True)
class Slice:
    """y[i, j, k] = x[start + (i, j, k) * step] below `stop`."""

    name: str
    input: str
    start: Shape
    stop: Shape
    step: Shape = (1, 1, 1)


@dataclass(frozen=True)
class ChannelShuffle:
    """y[c] = x[(c % groups) * (C / groups) + c // groups]."""

    name: str
    input: str
    groups: int


@dataclass(frozen=True)
class ResizeBilinear:
    """Between two rows and two columns; where an element lies: `edgemeta.model.layers.bilinear`."""

    name: str
    input: str
    size: Pair
    coordinates: Coordinates


FloatLayer: TypeAlias = (
    Conv
    | BatchNorm
    | Relu
    | Add
    | Pool
    | GlobalAverage
    | Dense
    | Concat
    | Upsample
    | Function
    | Product
    | Pad
    | Slice
    | ChannelShuffle
    | ResizeBilinear
)


@dataclass(frozen=True, eq=False)
class FloatModel:
    """A float network: graph, preprocessing, task and provenance.

    Network input = (pixel - mean) / scale with pixel 0..255; mean and scale are one number for all channels or one for
    each. How a frame becomes these pixels say colour, crop, fill and align (`edgemeta.model.graph.Preprocessing`).
    outputs: the tensors that the task wants; a classification has one, its logits, (1, 1, labels).
    """

    name: str
    input_shape: Shape
    layers: tuple[FloatLayer, ...]
    outputs: tuple[str, ...]
    task: Task
    mean: tuple[float, ...] = (128.0,)
    scale: tuple[float, ...] = (128.0,)
    provenance: Mapping[str, object] = field(default_factory=dict)
    colour: str = "rgb"
    crop: Crop = "center"
    fill: tuple[int, ...] = (0,)
    align: Align = "center"

    @property
    def output(self) -> str:
        """The tensor of a classification's logits."""
        return self.outputs[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that the task can name; none for an embedding."""
        return labels_of(self.task)

    @property
    def is_classification(self) -> bool:
        """Whether its one output is a logit for each label, of which the greatest counts."""
        return isinstance(self.task, Classification)


def inputs_of(layer: FloatLayer) -> tuple[str, ...]:
    """Names of the tensors that a layer reads."""
    return layer.inputs if isinstance(layer, Add | Concat | Product) else (layer.input,)
