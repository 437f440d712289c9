"""Scheme `auto`: folded batch norm, per-channel weights, calibrated activations, the best choice by measurement.

Every combination of clip rule and requantization form is built and run with the reference interpreter on calibration
images. On the one whose logits differ least from those of the float network, rounding with error feedback, then also
equalization of channels, then bias correction are tried; each is kept if it reduces the difference further.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.model.layers import TensorType
from edgemeta.tasks.classification import logits_of
from edgemeta.toolchain.float_model.forward import logits
from edgemeta.toolchain.float_model.graph import Float32, FloatModel, check
from edgemeta.toolchain.quantize.assemble import image_integers
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibrate import CLIP_RULES, Statistics
from edgemeta.toolchain.quantize.choices import FORMS, Choice, tensor_types
from edgemeta.toolchain.quantize.correct import corrected
from edgemeta.toolchain.quantize.equalize import equalized
from edgemeta.toolchain.quantize.feedback import Moments, second_moments
from edgemeta.toolchain.quantize.integer_layers import build

_FEW_IMAGES = 256
EQUALIZATIONS = (0.5, 1.0)


@dataclass(frozen=True)
class Agreement:
    """Agreement of an integer network with its float network on the calibration images.

    error: mean square difference of the logits, after subtracting each image's mean, relative to the mean square of the
    float logits. same_label: share 0..1 of images with the same greatest logit.
    """

    choice: str
    error: float
    same_label: float


def quantize_auto(
    model: FloatModel,
    pixels: NDArray[np.uint8],
    progress: Callable[[Agreement], None] | None = None,
) -> Model:
    """The best integer model for calibration images uint8 [N, H, W, 3], N about 500 to 2,000.

    Its provenance lists all choices tried. Raises QuantizeError.
    """
    wanted = logits(model, pixels)
    images = image_integers(model, pixels)
    few = pixels[:_FEW_IMAGES]
    prepared = {0.0: _Prepared(model, pixels)}
    tried: list[tuple[Agreement, Model, Choice]] = []

    def attempt(choice: Choice) -> None:
        integer = prepared[choice.equalize].build(choice)
        agreement = measure(integer, images, wanted, choice.text)
        tried.append((agreement, integer, choice))
        if progress is not None:
            progress(agreement)

    def best() -> tuple[Agreement, Model, Choice]:
        return min(tried, key=lambda t: t[0].error)

    for form in FORMS:
        for clip in CLIP_RULES:
            attempt(Choice(clip, form))
    plain = best()[2]
    attempt(replace(plain, moments=prepared[0.0].moments(few)))
    for strength in EQUALIZATIONS:
        prepared[strength] = _Prepared(equalized(model, few, strength), pixels)
        attempt(replace(plain, equalize=strength, moments=prepared[strength].moments(few)))
    chosen = best()[2]
    attempt(prepared[chosen.equalize].corrected(chosen, few))
    agreement, integer, _ = best()
    return replace(integer, provenance=_provenance(agreement, [t[0] for t in tried], len(pixels)))


class _Prepared:
    """A float network with the data needed to build integer networks from it."""

    def __init__(self, model: FloatModel, pixels: NDArray[np.uint8]) -> None:
        self._model, self._shapes, self._blocks = model, check(model, model.name), blocks_of(model)
        self._statistics = Statistics(model, pixels, {b.after for b in self._blocks})

    def _types(self, choice: Choice) -> dict[str, TensorType]:
        return tensor_types(self._model, self._shapes, self._blocks, self._statistics, choice.clip)

    def build(self, choice: Choice) -> Model:
        """The integer model for one choice."""
        return build(self._model, self._blocks, self._types(choice), choice)

    def moments(self, pixels: NDArray[np.uint8]) -> Mapping[str, Moments]:
        """Second moments of every block's inputs."""
        return second_moments(self._model, self._blocks, pixels)

    def corrected(self, choice: Choice, pixels: NDArray[np.uint8]) -> Choice:
        """The choice with bias corrections added."""
        return corrected(self._model, self._blocks, self._types(choice), choice, pixels)


def measure(integer: Model, images: NDArray[np.generic], wanted: Float32, choice: str) -> Agreement:
    """Run the integer model on images (of its input type) and compare with float logits [N, labels]."""
    found = logits_of(reference.run(integer, images)).astype(np.float64) * integer.output_types[0].scale
    real = wanted - wanted.mean(1, keepdims=True)
    off = found - found.mean(1, keepdims=True) - real
    error = float(np.square(off).mean() / max(float(np.square(real).mean()), 1e-30))
    return Agreement(choice, error, float((found.argmax(1) == wanted.argmax(1)).mean()))


def _provenance(best: Agreement, tried: list[Agreement], images: int) -> Mapping[str, object]:
    return {
        "scheme": "auto",
        "choice": best.choice,
        "calibration_images": images,
        "tried": [
            {"choice": t.choice, "logit_error": round(t.error, 6), "same_label": round(t.same_label, 4)} for t in tried
        ],
    }
