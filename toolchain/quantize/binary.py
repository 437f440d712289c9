"""Scheme `binary`: weights as B binary vectors with integer factors, feature maps of Q bits, without training.

Kondo and Yamashita: "Binary-decomposed DCNN". The same B and Q in every layer; a search chooses them layer by layer.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.model.errors import ModelError
from edgemeta.model.graph import INPUT, FloatModel, Model
from edgemeta.model.layers import Float32, TensorType, Weighted
from edgemeta.model.preprocess import look_up
from edgemeta.model.prove import prove
from edgemeta.tasks.detection.objects import Object
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.labelled_images import LabelledImages, network_pixels
from edgemeta.toolchain.decompose.integer import INT8_BITS, MOST_BITS
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.average_precision import Precision
from edgemeta.toolchain.evaluate.detection import evaluate_finder, least_scores
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.quantize.bit_network import BitNetwork, Bits, image_of_bits
from edgemeta.toolchain.quantize.blocks import Block, folded
from edgemeta.toolchain.quantize.calibration import Calibration, PreparedImages
from edgemeta.toolchain.quantize.events import Events, Stage
from edgemeta.toolchain.quantize.measure import BoxesMeasured, Measured, Unlabelled, silent
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.quantize.scheme import SchemeResult, Tested, TestImages
from edgemeta.toolchain.quantize.weight_schemes import Binary


class RealForm:
    """Runs the decomposed network of a choice in float32."""

    def __init__(self, network: BitNetwork, scheme: Binary, bits: Bits) -> None:
        self._model = network.model
        self._image = image_of_bits(network.model, bits.maps.get(INPUT, 8))
        self._types = network.maps.types(bits.maps)
        self._blocks = [_decomposed(block, network.weights, scheme, bits.weights) for block in network.blocks]

    def logits(self, pixels: NDArray[np.uint8]) -> Float32:
        """Logits [N, labels] of pixels uint8 [N, H, W, C] in the network's own channels."""
        (logits,) = self.outputs(pixels)
        return logits.reshape(len(logits), -1)

    def outputs(self, pixels: NDArray[np.uint8]) -> tuple[Float32, ...]:
        """The network's outputs [N, H, W, C], in their order."""
        tensors = self.tensors(pixels)
        names = {block.after: block.name for block in self._blocks}
        return tuple(tensors[names[name]] for name in self._model.outputs)

    def tensors(self, pixels: NDArray[np.uint8]) -> dict[str, Float32]:
        """The real numbers of every block's output [N, H, W, C], by the block's name, after quantization."""
        table = self._image.table
        channels = np.arange(pixels.shape[3]) if len(table) > 1 else 0
        tensors: dict[str, Float32] = {INPUT: _real(table[channels, pixels], self._image.kind)}
        for block in self._blocks:
            result = block.core.reals([tensors[name] for name in block.inputs])
            if block.relu is not None:
                result = block.relu.reals([result])
            tensors[block.name] = result
            if block.name in self._types and block.after not in self._model.outputs:
                tensors[block.name] = _quantized(result, self._types[block.name])
        return tensors


def _decomposed(block: Block, weights: Mapping[str, Float32], scheme: Binary, bases: Mapping[str, int]) -> Block:
    """The block with the decoded weights and its folded bias."""
    core = block.core
    if not isinstance(core, Weighted):
        return block
    weight = scheme.decomposition(weights[block.name], bases[block.name]).decode().astype(np.float32)
    bias = folded(block)[1]
    return replace(block, core=replace(core, weights=weight.reshape(core.weights.shape), bias=bias), norm=None)


def _quantized(x: Float32, kind: TensorType) -> Float32:
    integers = np.clip(np.floor(x / np.float32(kind.scale) + np.float32(0.5)) + kind.zero_point, kind.lo, kind.hi)
    return _real(integers, kind)


def _real(integers: NDArray[np.generic], kind: TensorType) -> Float32:
    return (integers.astype(np.float32) - np.float32(kind.zero_point)) * np.float32(kind.scale)


BASES, FEATURE_BITS = 6, 6
"""What is used unless stated: the paper's "all 6"."""
_TINY = 1e-30


@dataclass(frozen=True)
class LayerDecomposition:
    """Signal-to-noise ratio of a layer's decomposed weights in dB: 10 log10(mean square of the weights / of the error).

    decibels: with real factors; integer_decibels: of the integer form.
    """

    layer: str
    weights: int
    bases: int
    decibels: float
    integer_decibels: float


@dataclass(frozen=True)
class RealMeasured:
    """Shares 0..1 of labelled images: the real-valued form is right; both forms give the same class.

    changed: share of the images of which one form is right and the other is not. By chance alone, the accuracies of two
    equally good forms then differ by about sqrt(changed / images).
    """

    accuracy: float
    same_label: float
    changed: float


@dataclass(frozen=True)
class BinaryMeasured(Measured):
    """real: of the real-valued form, on the same images."""

    real: RealMeasured

    def provenance(self) -> Mapping[str, object]:
        """The figures as the model file states them."""
        return {**super().provenance(), "real_form_test_accuracy": self.real.accuracy}


@dataclass(frozen=True)
class BinaryBoxesMeasured(BoxesMeasured):
    """real: of the real-valued form, on the same images."""

    real: Precision

    def provenance(self) -> Mapping[str, object]:
        """The figures as the model file states them."""
        return {**super().provenance(), "real_form_test_map": self.real.mean}


@dataclass(frozen=True)
class BinaryResult(SchemeResult):
    """real: the real-valued form. layers: each layer's error in the network's order."""

    real: RealForm
    layers: tuple[LayerDecomposition, ...]

    def measure(self, model: FloatModel, integer: Model, data: TestImages, progress: Progress) -> Tested:
        """As `SchemeResult.measure`, and the real-valued form."""
        plain = super().measure(model, integer, data, progress)
        if isinstance(data, BoxedImages):
            assert isinstance(plain, BoxesMeasured)
            return BinaryBoxesMeasured(**vars(plain), real=_real_precision(model, integer, self.real, data))
        if isinstance(data, Unlabelled):
            return plain
        assert isinstance(plain, Measured)
        return BinaryMeasured(**vars(plain), real=measure_real(self.real, integer, data))


@dataclass(frozen=True)
class BinaryScheme:
    """Scheme `binary`. bases, feature_bits: 2 .. 8, the same in every layer; integer_bits: of the weights, 8 .. 16."""

    calibration: Calibration
    bases: int = BASES
    feature_bits: int = FEATURE_BITS
    integer_bits: int = INT8_BITS

    def run(self, model: FloatModel, following: Sequence[Stage], events: Events) -> BinaryResult:
        """As `Scheme.run`."""
        frames = self.calibration.frames(events.left_out)
        events.planned((Stage("images", 0.2 * len(frames)), Stage("ranges", 1.5 * len(frames)), *following))
        images = PreparedImages(model, frames, events.stage("images"))
        return quantize_binary(model, images, self.bases, self.feature_bits, events, self.integer_bits)


def quantize_binary(
    model: FloatModel,
    images: PreparedImages,
    bases: int,
    feature_bits: int,
    events: Events | None = None,
    integer_bits: int = INT8_BITS,
) -> BinaryResult:
    """The binary-decomposed network, with ranges of feature maps of calibration images. Raises QuantizeError.

    integer_bits: of the weights as integers, 8 .. 16; the more, the nearer to the real factors.
    """
    wanted = (
        ("bases", bases, Binary.widths),
        ("feature bits", feature_bits, range(2, 9)),
        ("integer bits", integer_bits, range(INT8_BITS, MOST_BITS + 1)),
    )
    for name, value, widths in wanted:
        if value not in widths:
            raise QuantizeError(f"scheme binary has {widths[0]} to {widths[-1]} {name}, found {value}")
    scheme = Binary(integer_bits)
    network = BitNetwork(model, images, scheme, events or Events())
    bits = network.uniform(bases, feature_bits)
    integer = network.build(bits)
    try:
        prove(integer)
    except ModelError as error:
        raise QuantizeError(f"{error}; expected fewer integer bits than {integer_bits} for these layers") from error
    provenance = {**integer.provenance, "integer_bits": integer_bits, "calibration_images": len(images)}
    layers = tuple(_error(network, scheme, integer, name, bases) for name in network.layers)
    return BinaryResult(replace(integer, provenance=provenance), len(images), RealForm(network, scheme, bits), layers)


def measure_real(real: RealForm, integer: Model, data: LabelledImages) -> RealMeasured:
    """Run both forms on labelled images. Raises BackendError."""
    right, same, changed, total = 0, 0, 0, 0
    with closing(integer_session(integer)) as session:
        for pixels, classes in network_pixels(data, integer):
            by_real = real.logits(pixels).argmax(1)
            image = np.ascontiguousarray(look_up(integer.preprocessing.table, pixels))
            by_integer = session.run(image)[0].reshape(len(classes), -1).argmax(1)
            right += int((by_real == classes).sum())
            same += int((by_real == by_integer).sum())
            changed += int(((by_real == classes) != (by_integer == classes)).sum())
            total += len(classes)
    return RealMeasured(right / total, same / total, changed / total)


def _real_precision(model: FloatModel, integer: Model, real: RealForm, images: BoxedImages) -> Precision:
    detector = FloatDetector(model, least_scores(model.task))

    def find(pixels: NDArray[np.uint8]) -> list[tuple[Object, ...]]:
        outputs = real.outputs(pixels)
        return [detector.objects([each[i : i + 1] for each in outputs]) for i in range(len(pixels))]

    return evaluate_finder(images, integer, find, silent)


def _error(network: BitNetwork, scheme: Binary, integer: Model, name: str, bases: int) -> LayerDecomposition:
    weight = network.weights[name]
    found = integer.by_name[name]
    assert isinstance(found, Weighted)
    decoded = found.weights.decode() * found.weights.scale.reshape(-1, *[1] * (weight.ndim - 1))
    signal = float(np.square(weight, dtype=np.float64).sum())
    real = float(scheme.decomposition(weight, bases).errors.sum())
    return LayerDecomposition(
        name, weight.size, bases, _decibels(signal, real), _decibels(signal, _square_error(weight, decoded))
    )


def _square_error(weight: NDArray[np.floating], decoded: NDArray[np.floating]) -> float:
    return float(np.square(weight - decoded).sum())


def _decibels(signal: float, noise: float) -> float:
    return round(10 * math.log10(max(signal, _TINY) / max(noise, _TINY)), 2)
