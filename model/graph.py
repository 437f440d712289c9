"""A whole network: layers in the order they run, what it is for, and how it was made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Layer, TensorType

INPUT = "input"
"""Name of the tensor that holds the preprocessed image; a layer's output tensor carries the layer's name."""


@dataclass(frozen=True, eq=False)
class Preprocessing:
    """How a camera frame becomes the input tensor; the exact integers are defined in `preprocess.py`.

    crop: "center" takes the largest centred region of the input's aspect ratio, "full" squeezes the whole frame.
    colour: channel order of the input tensor. table: [C, 256] or [1, 256] of the input's dtype, from pixel to integer.
    """

    crop: Literal["center", "full"]
    colour: Literal["rgb", "bgr", "gray"]
    table: NDArray[np.int8] | NDArray[np.uint8]


@dataclass(frozen=True)
class Classification:
    """The output is one logit per label; the label is the greatest logit's, the lowest index at a tie.

    temperature: what the dequantized logits are divided by before their softmax, so that a score is the share of images
    named right at that score. It changes no order.
    """

    labels: tuple[str, ...]
    temperature: float = 1.0


@dataclass(frozen=True, eq=False)
class SelfTest:
    """Inputs and the logits that they must give, by which a backend is tested before it serves.

    batch: [N, H, W, C] of the input's dtype. expected: [N, labels] of the output's dtype.
    """

    batch: NDArray[np.int8] | NDArray[np.uint8]
    expected: NDArray[np.int8] | NDArray[np.uint8] | NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Model:
    """A quantized network.

    Layers run in the order given and read only "input" and tensors of earlier layers. `provenance` says how it was
    made (data, scheme, measured accuracy; JSON values). `self_test` has inputs with known answers, where there are any.
    `digest` is the SHA-256, in hex, of the file it was read from: the model's identity, empty for a model that was
    never stored.
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
