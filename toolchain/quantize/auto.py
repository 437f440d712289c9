"""Scheme `auto`: folded batch norm, per-channel weights, calibrated activations, the best choice by measurement.

Each rule for the ranges of tensors is built and run on the cpu backend with calibration images, then the best one with
tables for requantization. On the one that agrees best with the float network, rounding with error feedback, then also
equalization of channels, then bias correction are tried; each is kept if it agrees better. A detection agrees by its
objects, any other network by its outputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgemeta.model.graph import Model
from edgemeta.toolchain.float_model.graph import FloatModel
from edgemeta.toolchain.quantize.choices import Choice
from edgemeta.toolchain.quantize.compare import Expected, LayerError
from edgemeta.toolchain.quantize.equalize import EQUALIZATIONS, can_equalize, equalized
from edgemeta.toolchain.quantize.images import PreparedImages
from edgemeta.toolchain.quantize.observer import Agreement, Observer
from edgemeta.toolchain.quantize.prepared import Prepared
from edgemeta.toolchain.quantize.ranges import RANGE_RULES, RangeRule


@dataclass(frozen=True)
class AutoResult:
    """What scheme `auto` has made. tried: every choice, in order; layers: error of each layer, worst first."""

    model: Model
    agreement: Agreement
    tried: tuple[Agreement, ...]
    layers: tuple[LayerError, ...]


def quantize_auto(
    model: FloatModel,
    images: PreparedImages,
    rules: Sequence[RangeRule] = RANGE_RULES,
    observer: Observer | None = None,
) -> AutoResult:
    """The best integer model for calibration images, about 100 to 1,000.

    rules: for the ranges of tensors, of which the best is taken. The provenance of the model lists every choice that
    was tried. Raises QuantizeError, BackendError.
    """
    observer = observer or Observer()
    expected = Expected(model, images, observer.stage("float network"))
    tried: list[tuple[Agreement, Model, Choice]] = []
    prepared = {0.0: Prepared(model, images, observer)}

    def attempt(choice: Choice) -> None:
        integer = prepared[choice.equalize].builder(choice).build()
        agreement = expected.measure(integer, choice.text, observer.stage("trying", choice.text))
        tried.append((agreement, integer, choice))
        observer.tried(agreement)

    def best() -> tuple[Agreement, Model, Choice]:
        return min(tried, key=lambda each: each[0].distance)

    for rule in rules:
        attempt(Choice(rule, "multiplier"))
    attempt(replace(best()[2], form="table"))
    plain = best()[2]
    attempt(replace(plain, feedback=True))
    if can_equalize(model, prepared[0.0].statistics.reach):
        for strength in EQUALIZATIONS:
            scaled = equalized(model, prepared[0.0].statistics.reach, strength)
            prepared[strength] = Prepared(scaled, images, observer)
            attempt(replace(plain, equalize=strength, feedback=True))
    chosen = best()[2]
    attempt(prepared[chosen.equalize].corrected(chosen))
    agreement, integer, chosen = best()
    made_from = prepared[chosen.equalize]
    layers = made_from.layer_errors(integer)
    provenance = _provenance(agreement, [each[0] for each in tried], len(images))
    return AutoResult(replace(integer, provenance=provenance), agreement, tuple(each[0] for each in tried), layers)


def _provenance(best: Agreement, tried: Sequence[Agreement], images: int) -> Mapping[str, object]:
    return {
        "scheme": "auto",
        "choice": best.choice,
        "calibration_images": images,
        "tried": [_entry(each) for each in tried],
    }


def _entry(agreement: Agreement) -> Mapping[str, object]:
    shares = {"same_label": agreement.same_label, "same_objects": agreement.same_objects}
    stated = {key: round(share, 4) for key, share in shares.items() if share is not None}
    return {"choice": agreement.choice, "output_error": round(agreement.error, 6), **stated}
