"""Scheme `auto`: folded batch norm, per-channel weights, calibrated activations, the best choice by measurement.

Each rule for the ranges of tensors is built and run on the cpu backend with calibration images, then the best one with
tables for requantization. On the one that agrees best with the float network, rounding with error feedback, then also
equalization of channels, then bias correction are tried; each is kept if it agrees better. A detection agrees by its
objects, any other network by its outputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import compares_channels
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibration import Calibration, PreparedImages
from edgemeta.toolchain.quantize.compare import Expected, LayerError, layer_errors
from edgemeta.toolchain.quantize.correct import corrected
from edgemeta.toolchain.quantize.equalize import EQUALIZATIONS, can_equalize, equalized
from edgemeta.toolchain.quantize.events import Agreement, Events, Stage
from edgemeta.toolchain.quantize.feedback import MOMENT_IMAGES, second_moments
from edgemeta.toolchain.quantize.folded import Choice, Folded
from edgemeta.toolchain.quantize.image import image_type
from edgemeta.toolchain.quantize.lower import Lowering, raw_outputs
from edgemeta.toolchain.quantize.ranges import RANGE_RULES, RangeRule, Statistics
from edgemeta.toolchain.quantize.scheme import SchemeResult
from edgemeta.toolchain.quantize.types import tensor_types
from edgemeta.toolchain.quantize.weights import LayerWeights

LAYER_IMAGES = 8


class Prepared:
    """A float network with the data needed to build integer networks from it."""

    def __init__(self, model: FloatModel, images: PreparedImages, events: Events) -> None:
        self._model, self._images, self._observer = model, images, events
        self._shapes, self._blocks = prove_float(model, model.name), blocks_of(model)
        self._raw = raw_outputs(model, self._blocks)
        self.statistics = Statistics(model, self._blocks, images, events.stage("ranges"))
        self._plain = LayerWeights(self._blocks)
        self._with_feedback: LayerWeights | None = None

    def builder(self, choice: Choice) -> Lowering[Folded]:
        """What builds the integer model of a choice."""
        types = tensor_types(image_type(self._model), self._shapes, self._blocks, self.statistics, choice.ranges)
        weights = self._feedback() if choice.feedback else self._plain
        policy = Folded(weights, choice, compares_channels(self._model.task))
        return Lowering(self._model, self._blocks, types, policy, self._raw)

    def corrected(self, choice: Choice) -> Choice:
        """The choice with bias corrections added."""
        return corrected(self.builder(choice), self.statistics.means, self._images, self._observer.stage("biases"))

    def layer_errors(self, integer: Model) -> tuple[LayerError, ...]:
        """The error of every layer, on a few images."""
        few = self._images.chosen(LAYER_IMAGES)
        return layer_errors(self._model, self._blocks, integer, few, self._observer.stage("layers"))

    def _feedback(self) -> LayerWeights:
        if self._with_feedback is None:
            few = self._images.chosen(MOMENT_IMAGES)
            moments = second_moments(self._model, self._blocks, few, self._observer.stage("rounding"))
            self._with_feedback = self._plain.with_moments(moments)
        return self._with_feedback


@dataclass(frozen=True)
class AutoResult(SchemeResult):
    """agreement: of the best choice. tried: every choice, in order; layers: error of each layer, worst first."""

    agreement: Agreement
    tried: tuple[Agreement, ...]
    layers: tuple[LayerError, ...]


@dataclass(frozen=True)
class AutoScheme:
    """Scheme `auto`. ranges: rules for the ranges of tensors, of which the best is taken."""

    calibration: Calibration
    ranges: tuple[RangeRule, ...] = RANGE_RULES

    def run(self, model: FloatModel, following: Sequence[Stage], events: Events) -> AutoResult:
        """As `Scheme.run`."""
        frames = self.calibration.frames(events.left_out)
        events.planned((*stages_of_auto(model, len(frames), len(self.ranges)), *following))
        images = PreparedImages(model, frames, events.stage("images"))
        return quantize_auto(model, images, self.ranges, events)


def stages_of_auto(model: FloatModel, images: int, rules: int) -> tuple[Stage, ...]:
    """The stages of scheme `auto` for so many calibration images and rules for ranges."""
    ranges, trying = Stage("ranges", 1.5 * images), Stage("trying", 0.1 * images)
    rounding = Stage("rounding", 3.0 * min(MOMENT_IMAGES, images))
    equalizations = len(EQUALIZATIONS) if can_equalize(model, [block.after for block in blocks_of(model)]) else 0
    return (
        Stage("images", 0.2 * images),
        Stage("float network", images),
        ranges,
        *[trying] * (rules + 1),
        *(rounding, trying),
        *(ranges, rounding, trying) * equalizations,
        *(Stage("biases", 0.5 * images), trying),
        Stage("layers", 8),
    )


def quantize_auto(
    model: FloatModel,
    images: PreparedImages,
    rules: Sequence[RangeRule] = RANGE_RULES,
    events: Events | None = None,
) -> AutoResult:
    """The best integer model for calibration images, about 100 to 1,000.

    rules: for the ranges of tensors, of which the best is taken. The provenance of the model lists every choice that
    was tried. Raises QuantizeError, BackendError.
    """
    events = events or Events()
    expected = Expected(model, images, events.stage("float network"))
    tried: list[tuple[Agreement, Model, Choice]] = []
    prepared = {0.0: Prepared(model, images, events)}

    def attempt(choice: Choice) -> None:
        integer = prepared[choice.equalize].builder(choice).build()
        agreement = expected.measure(integer, choice.text, events.stage("trying", choice.text))
        tried.append((agreement, integer, choice))
        events.tried(agreement)

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
            prepared[strength] = Prepared(scaled, images, events)
            attempt(replace(plain, equalize=strength, feedback=True))
    chosen = best()[2]
    attempt(prepared[chosen.equalize].corrected(chosen))
    agreement, integer, chosen = best()
    made_from = prepared[chosen.equalize]
    layers = made_from.layer_errors(integer)
    provenance = _provenance(agreement, [each[0] for each in tried], len(images))
    every = tuple(each[0] for each in tried)
    return AutoResult(replace(integer, provenance=provenance), len(images), agreement, every, layers)


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
