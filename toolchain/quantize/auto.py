"""Scheme `auto`: batch norm folded, per-channel weights, calibrated activations, the best choice by measurement.

Every combination of clip rule and requantization form is built and run with the reference interpreter on calibration
images; the one whose logits differ least from the float network's is taken, and bias correction is kept if it brings
them nearer still.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.toolchain.float_forward import logits
from edgemeta.toolchain.float_graph import Float32, FloatModel, check
from edgemeta.toolchain.quantize.assemble import image_integers
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibrate import CLIP_RULES, Statistics
from edgemeta.toolchain.quantize.choices import FORMS, Choice, tensor_types
from edgemeta.toolchain.quantize.correct import corrected
from edgemeta.toolchain.quantize.integer_layers import build

_CORRECTION_IMAGES = 256


@dataclass(frozen=True)
class Agreement:
    """How near an integer network is to its float one on the calibration images.

    error: mean square difference of the logits, each image's mean taken off, over the float logits' own mean square.
    same_label: share of images 0..1 with the same greatest logit.
    """

    choice: str
    error: float
    same_label: float


def quantize_auto(
    model: FloatModel,
    pixels: NDArray[np.uint8],
    progress: Callable[[Agreement], None] | None = None,
) -> Model:
    """Give the best integer model for calibration images uint8 [N, H, W, 3], N about 500 to 2,000.

    Its provenance lists every choice tried. Raises QuantizeError.
    """
    shapes = check(model, model.name)
    blocks = blocks_of(model)
    statistics = Statistics(model, pixels, {b.after for b in blocks})
    wanted = logits(model, pixels)
    images = image_integers(model, pixels)
    tried: list[tuple[Agreement, Model, Choice]] = []

    def attempt(choice: Choice) -> None:
        types = tensor_types(model, shapes, blocks, statistics, choice.clip)
        integer = build(model, blocks, types, choice)
        agreement = measure(integer, images, wanted, choice.text)
        tried.append((agreement, integer, choice))
        if progress is not None:
            progress(agreement)

    for form in FORMS:
        for clip in CLIP_RULES:
            attempt(Choice(clip, form))
    best = min(tried, key=lambda t: t[0].error)[2]
    types = tensor_types(model, shapes, blocks, statistics, best.clip)
    attempt(corrected(model, blocks, types, best, pixels[:_CORRECTION_IMAGES]))
    agreement, integer, _ = min(tried, key=lambda t: t[0].error)
    return replace(integer, provenance=_provenance(agreement, [t[0] for t in tried], len(pixels)))


def measure(integer: Model, images: NDArray[np.generic], wanted: Float32, choice: str) -> Agreement:
    """Run the integer model on images (its input type) and compare with float logits [N, labels]."""
    found = reference.run(integer, images).astype(np.float64) * integer.logits.scale
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
