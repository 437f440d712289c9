"""A complete network, integer or float: layers in execution order, preprocessing, task and provenance."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Generic, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import FloatLayer, Layer, Operator, Shape, TensorType
from edgemeta.model.tasks import Classification, Task, labels_of

INPUT = "input"
"""Name of the tensor that holds the preprocessed image; a layer's output tensor has the layer's name."""


Crop: TypeAlias = Literal["center", "full", "letterbox"]
Align: TypeAlias = Literal["center", "corner"]


def types_of(image: TensorType, layers: Iterable[Layer]) -> Mapping[str, TensorType]:
    """Type of every tensor, by name, that of "input" first."""
    return {INPUT: image} | {layer.name: layer.output for layer in layers}


def readers_of(layers: Iterable[Operator], outputs: Iterable[str]) -> Counter[str]:
    """How often layers read each tensor, "input" included; for an output one more. 0 for any other name."""
    return Counter(chain(outputs, *(layer.sources for layer in layers)))


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """How a camera frame becomes the input tensor; the exact integers are defined in `preprocess.py`.

    crop: "center" takes the largest centred region of the input's aspect ratio, "full" stretches the whole frame,
    "letterbox" scales the whole frame, keeps its aspect ratio, and fills the rest of the input.
    colour: what each of the 1 to 4 channels of the input holds, one letter for each: r, g, b, y (gray) or a (alpha,
    always 255), such as "rgb" or "bgra"; "gray" means "y".
    table: [C, 256] or [1, 256] of the input's dtype, from pixel to integer.
    fill: of a letterbox, pixels 0 .. 255 before the table, one for each channel of the input or one for all.
    align: of a letterbox, the frame lies in the middle, or in the corner at the top left.
    """

    crop: Crop
    colour: str
    table: NDArray[np.int8] | NDArray[np.uint8]
    fill: tuple[int, ...] = (0,)
    align: Align = "center"


def channels_of(colour: str) -> str:
    """One letter for each channel that a `colour` names: r, g, b, y (gray) or a (alpha)."""
    return "y" if colour == "gray" else colour


@dataclass(frozen=True, eq=False)
class SelfTest:
    """Inputs and expected outputs, which test a backend before its results are used.

    batch: [N, H, W, C] of the input's dtype, N = 1 to 64. expected: [N, elements], the outputs of each input one after
    the other (`self_test.flat`), of their dtype, or int32 where they have several.
    """

    batch: NDArray[np.int8] | NDArray[np.uint8]
    expected: NDArray[np.int8] | NDArray[np.uint8] | NDArray[np.int32]


L = TypeVar("L", Layer, FloatLayer)


class Graph(Generic[L]):
    """What integer and float networks share.

    Layers run in the given order and read only "input" and tensors of earlier layers. outputs: the layers whose tensors
    are the result; which ones a task wants is stated in `tasks`. provenance: how it was made (data, scheme, measured
    accuracy; JSON values).
    """

    name: str
    layers: tuple[L, ...]
    outputs: tuple[str, ...]
    task: Task
    provenance: Mapping[str, object]

    @cached_property
    def by_name(self) -> Mapping[str, L]:
        """The layers by their names."""
        return {layer.name: layer for layer in self.layers}

    @cached_property
    def readers(self) -> Counter[str]:
        """How often each tensor is read, by name (`readers_of`)."""
        return readers_of(self.layers, self.outputs)

    @cached_property
    def after(self) -> Mapping[str, L]:
        """The only reader of a tensor, by the tensor's name; none where several read it, or the network gives it."""
        return {name: each for each in self.layers for name in each.sources if self.readers[name] == 1}

    @property
    def labels(self) -> tuple[str, ...]:
        """Labels that the task can name; none for an embedding."""
        return labels_of(self.task)


@dataclass(frozen=True, eq=False)
class Model(Graph[Layer]):
    """A quantized network; each of its outputs occurs once.

    name: 1 to 200 printable characters, as are all names and labels. outputs: 1 to 64 names of layers. provenance: any
    JSON object, nested at most 16 deep. self_test: inputs with expected outputs, or None. digest: SHA-256, in hex, of
    the file that it was read from, which identifies the model; empty for a model that was never stored.
    """

    name: str
    input: TensorType
    layers: tuple[Layer, ...]
    outputs: tuple[str, ...]
    task: Task
    preprocessing: Preprocessing
    provenance: Mapping[str, object] = field(default_factory=dict)
    self_test: SelfTest | None = None
    digest: str = ""

    @cached_property
    def types(self) -> Mapping[str, TensorType]:
        """Type of every tensor, by name, the input's first."""
        return types_of(self.input, self.layers)

    @property
    def output_types(self) -> tuple[TensorType, ...]:
        """Type of each output."""
        return tuple(self.types[name] for name in self.outputs)

    def steps(self, output: str) -> NDArray[np.float64]:
        """What one integer step of an output is worth, for each channel [C] or for all [1] (`Operator.steps`)."""
        return self.by_name[output].steps


@dataclass(frozen=True, eq=False)
class FloatModel(Graph[FloatLayer]):
    """A trained network before quantization: float32 tensors [N, H, W, C], independent of any framework.

    Network input = (pixel - mean) / scale with pixel 0..255; mean and scale are one number for all channels or one for
    each. How a frame becomes these pixels say colour, crop, fill and align, as in `Preprocessing`.
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
    def is_classification(self) -> bool:
        """Whether its one output is a logit for each label, of which the greatest counts."""
        return isinstance(self.task, Classification)
