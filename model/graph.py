"""A complete network: layers in execution order, preprocessing, task and provenance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Layer, TensorType

INPUT = "input"
"""Name of the tensor that holds the preprocessed image; a layer's output tensor has the layer's name."""


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """How a camera frame becomes the input tensor; the exact integers are defined in `preprocess.py`.

    crop: "center" takes the largest centred region of the input's aspect ratio, "full" scales the whole frame.
    colour: channel order of the input tensor. table: [C, 256] or [1, 256] of the input's dtype, from pixel to integer.
    """

    crop: Literal["center", "full"]
    colour: Literal["rgb", "bgr", "gray"]
    table: NDArray[np.int8] | NDArray[np.uint8]


@dataclass(frozen=True)
class Classification:
    """The output is one logit per label; the predicted label is that of the greatest logit, at a tie the lowest index.

    temperature: divisor of the dequantized logits before the softmax (temperature scaling), so that a score equals the
    share of correctly classified images at that score. It does not change the order of labels.
    """

    labels: tuple[str, ...]
    temperature: float = 1.0


@dataclass(frozen=True, eq=False)
class SelfTest:
    """Inputs and expected logits, which test a backend before its results are used.

    batch: [N, H, W, C] of the input's dtype. expected: [N, labels] of the output's dtype.
    """

    batch: NDArray[np.int8] | NDArray[np.uint8]
    expected: NDArray[np.int8] | NDArray[np.uint8] | NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Model:
    """A quantized network.

    Layers run in the given order and read only "input" and tensors of earlier layers. provenance: how it was made
    (data, scheme, measured accuracy; JSON values). self_test: inputs with expected logits, or None. digest: SHA-256, in
    hex, of the file that it was read from, which identifies the model; empty for a model that was never stored.
    """

    name: str
    input: TensorType
    layers: tuple[Layer, ...]
    outputs: tuple[str, ...]
    task: Classification
    preprocessing: Preprocessing
    provenance: Mapping[str, object] = field(default_factory=dict)
    self_test: SelfTest | None = None
    digest: str = ""

    @property
    def logits(self) -> TensorType:
        """Type of the output tensor."""
        types = {layer.name: layer.output for layer in self.layers}
        return types[self.outputs[0]]
