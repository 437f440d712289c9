"""Scheme `auto`: folded batch norm, weights and some tensors with a scale for each channel, calibrated activations.

For each rule for the ranges of tensors, weights are fitted layer by layer (`refit.py`), and the network is built and
run on the cpu backend; then the best one with tables for requantization, and the better of both with weights that are
not fitted. With pictures for it, the best one is trained to give the float network's outputs (`distill.py`). The one
that agrees best with the float network on images that nothing was fitted to is kept: on a part of the calibration
images, and on drawn scenes where those are few or show one place, or the network is a detection. That agrees by its
objects, any other network by its outputs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from edgemeta.model.graph import INPUT, FloatModel, Model
from edgemeta.model.layers import Homogeneous, Layer, ShiftTable, TensorType, Weighted
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import Detection, compares_channels
from edgemeta.toolchain.quantize.blocks import blocks_of
from edgemeta.toolchain.quantize.calibration import DRAWN, Calibration, PreparedImages, WithDrawn
from edgemeta.toolchain.quantize.channels import Grid, Separable
from edgemeta.toolchain.quantize.compare import Expected, LayerError, compared, layer_errors
from edgemeta.toolchain.quantize.events import Agreement, Events, Stage
from edgemeta.toolchain.quantize.folded import Choice, Folded
from edgemeta.toolchain.quantize.image import image_type
from edgemeta.toolchain.quantize.lower import Lowering, raw_outputs
from edgemeta.toolchain.quantize.parallel import by_processes, for_each
from edgemeta.toolchain.quantize.ranges import RANGE_RULES, RangeRule, Statistics
from edgemeta.toolchain.quantize.refit import images_for_refit, refitted
from edgemeta.toolchain.quantize.scheme import SchemeResult
from edgemeta.toolchain.quantize.types import tensor_types
from edgemeta.toolchain.quantize.weights import LayerWeights

LAYER_IMAGES = 4


class Prepared:
    """A float network with the data needed to build integer networks from it.

    images: of which the last `drawn` are drawn scenes. They make no ranges beside as many others that do not show one
    place, where only a detection takes them at all. fit: those that weights are fitted to; judge: the others. expected:
    what the float network says of some of the latter.
    """

    def __init__(self, model: FloatModel, images: PreparedImages, events: Events, drawn: int = 0) -> None:
        own = images.take(range(len(images) - drawn))
        suffice = len(own) >= drawn and not own.show_one_place()
        if suffice and not isinstance(model.task, Detection):
            images, drawn = own, 0
        self._model, self._images, self._events = model, images, events
        self._shapes, self._blocks = prove_float(model, model.name), blocks_of(model)
        self.fit, self.judge = parted(images, drawn, images_for_refit(self._shapes.values()))
        self._raw = raw_outputs(model, self._blocks)
        self._separable = Separable.of(self._blocks, self._shapes, model.outputs)
        judge, stage = compared(model, self.judge), events.stage("ranges")
        outputs, judges = model.outputs, set(judge.numbers)
        sampled = [self._separable.after[name] for name in self._separable.functions]
        counted = len(own) if suffice else len(images)
        self.statistics = Statistics(
            model, self._blocks, images, stage, sampled, counted, lambda each, name: name in outputs and each in judges
        )
        known = [tuple(self.statistics.kept[number, name] for name in outputs) for number in judge.numbers]
        self.expected = Expected(model, judge, known=known)
        apart = self._separable.read_apart(self._shapes, self.statistics)
        self._plain = LayerWeights(self._blocks, {name: each.grid for name, each in apart.items()})
        self._fitted = dict[RangeRule, LayerWeights]()
        self._distilled: LayerWeights | None = None
        self._types: dict[RangeRule, tuple[dict[str, TensorType], dict[str, Grid]]] = {}

    def builder(self, choice: Choice) -> Lowering[Folded]:
        """What builds the integer model of a choice."""
        if choice.ranges not in self._types:
            self._types[choice.ranges] = self._types_of(choice.ranges)
        weights = self._fitted[choice.ranges] if choice.refitted else self._plain
        if choice.distilled:
            assert self._distilled is not None
            weights = self._distilled
        policy = Folded(weights, choice.form, compares_channels(self._model.task))
        types, grids = self._types[choice.ranges]
        return Lowering(self._model, self._blocks, types, policy, self._raw, grids)

    def _types_of(self, rule: RangeRule) -> tuple[dict[str, TensorType], dict[str, Grid]]:
        """Types and grids of the tensors of the integer network, by a rule for the ranges of the former."""
        image, apart = image_type(self._model), self._separable
        types = tensor_types(image, self._shapes, self._blocks, self.statistics, rule, apart=apart.functions)
        gridded = apart.gridded(self._shapes, self.statistics, types)
        return (
            types | {name: each.kind for name, each in gridded.items()},
            {name: each.grid for name, each in gridded.items()},
        )

    def refit(self, *choices: Choice) -> list[Choice]:
        """The choices, each of another rule, with fitted weights."""
        builders = for_each(self.builder, choices)
        every = refitted(builders, self._plain, self.fit, self._events.stage("refit"))
        self._fitted |= {choice.ranges: weights for choice, weights in zip(choices, every, strict=True)}
        return [replace(choice, refitted=True) for choice in choices]

    def distill(self, choice: Choice, pictures: PreparedImages) -> Choice:
        """The choice, with weights that are trained on pictures, but none that judges."""
        from edgemeta.toolchain.quantize.distill import distilled, without

        taught = without(pictures, self.judge)
        stages = self._events.stage("float network"), lambda: self._events.stage("distilling")
        self._distilled = distilled(self.builder(choice), (taught, self.fit), *stages)
        return replace(choice, distilled=True)

    def layer_errors(self, choice: Choice, integer: Model) -> tuple[LayerError, ...]:
        """The error of every layer, on a few images."""
        few, grids = self._images.chosen(LAYER_IMAGES), self.builder(choice).grids
        return layer_errors(self._model, self._blocks, integer, few, self._events.stage("layers"), grids)


def parted(images: PreparedImages, drawn: int, most: int) -> tuple[PreparedImages, PreparedImages]:
    """At most `most` images that weights are fitted to, and the others, which judge; the last `drawn` are drawn scenes.

    Weights are fitted to at most half of the scenes and of the other images; at most a quarter of `most` are scenes.
    Where no image is left to judge, all do.
    """
    own, scenes = len(images) - drawn, min(drawn // 2, most // 4)
    count = min(most - scenes, (own + 1) // 2)
    fit = {i * own // count for i in range(count)} | {own + i * drawn // scenes for i in range(scenes)}
    rest = [number for number in range(len(images)) if number not in fit]
    return images.take(sorted(fit)), images.take(rest) if rest else images


@dataclass(frozen=True)
class AutoResult(SchemeResult):
    """agreement: of the best choice, on `judged` images: calibration images that nothing was fitted to, drawn scenes.

    tried: every choice, in order; layers: error of each layer, worst first. distilled: pictures for a distillation.
    """

    judged: int
    agreement: Agreement
    tried: tuple[Agreement, ...]
    layers: tuple[LayerError, ...]
    distilled: int = 0


@dataclass(frozen=True)
class AutoScheme:
    """Scheme `auto`. ranges: rules for the ranges of tensors, of which the best is taken.

    distill: pictures to train on, which needs PyTorch; None: there is no training.
    """

    calibration: Calibration
    ranges: tuple[RangeRule, ...] = RANGE_RULES
    distill: Calibration | None = None

    def run(self, model: FloatModel, following: Sequence[Stage], events: Events) -> AutoResult:
        """As `Scheme.run`."""
        frames = self.calibration.frames(events.left_out)
        more = None if self.distill is None else self.distill.frames(events.left_out)
        ranges = self.ranges if has_ranges_by_rule(model) else self.ranges[:1]
        events.planned((*stages_of_auto(len(frames), len(ranges), len(more or ())), *following))
        images = PreparedImages(model, WithDrawn(frames), events.stage("images"))
        pictures = None if more is None else PreparedImages(model, more, events.stage("images"))
        return quantize_auto(model, images, ranges, events, DRAWN, pictures)


def has_ranges_by_rule(model: FloatModel) -> bool:
    """Whether a rule decides the range of any tensor: the image has its own, and scales of channels cover theirs."""
    shapes, blocks = prove_float(model, model.name), blocks_of(model)
    known = {INPUT, *raw_outputs(model, blocks), *Separable.of(blocks, shapes, model.outputs).names}
    for block in blocks:
        if isinstance(block.core, Homogeneous) and known.issuperset(block.inputs):
            known.add(block.name)
    return not known.issuperset(block.name for block in blocks)


def stages_of_auto(images: int, rules: int, pictures: int = 0) -> tuple[Stage, ...]:
    """The stages of scheme `auto` for so many calibration images, rules for ranges, and pictures to train on."""
    images += DRAWN
    trying = Stage("trying", 0.1 * images)
    read, trained = (
        Stage("images", 0.2 * pictures),
        (Stage("float network", pictures), Stage("distilling", 4 * pictures)),
    )
    return (
        *(Stage("images", 0.2 * images), *((read,) if pictures else ()), Stage("ranges", 1.2 * images)),
        *(Stage("refit", (1.0 + rules) * min(32, images)), *[trying] * (rules + 2)),
        *((*trained, trying) if pictures else ()),
        Stage("layers", 8),
    )


def quantize_auto(
    model: FloatModel,
    images: PreparedImages,
    rules: Sequence[RangeRule] = RANGE_RULES,
    events: Events | None = None,
    drawn: int = 0,
    pictures: PreparedImages | None = None,
) -> AutoResult:
    """The best integer model for calibration images, about 100 to 1,000, of which the last `drawn` are drawn scenes.

    rules: for the ranges of tensors, of which the best is taken. pictures: to train on. The provenance of the model
    lists every choice that was tried. Raises QuantizeError, BackendError.
    """
    events = events or Events()
    prepared = Prepared(model, images, events, drawn)
    expected = prepared.expected
    tried: list[tuple[Agreement, Model, Choice]] = []

    def measured(each: tuple[Model, Choice]) -> Agreement:
        integer, choice = each
        if choice.form == "table" and not any(map(_has_table, integer.layers)):  # the best one's integers
            return replace(best()[0], choice=choice.text)
        return expected.measure(integer, choice.text)

    def attempt(*choices: Choice) -> None:
        built = [(prepared.builder(choice).build(), choice) for choice in choices]
        agreements = by_processes(measured, built)
        for integer, choice in built:
            stage = events.stage("trying", choice.text)
            tried.append((next(agreements), integer, choice))
            events.tried(tried[-1][0])
            stage(1, 1)

    def best() -> tuple[Agreement, Model, Choice]:
        return min(tried, key=lambda each: each[0].distance)

    attempt(*prepared.refit(*(Choice(rule, "multiplier") for rule in rules)))
    attempt(replace(best()[2], form="table"))
    attempt(replace(best()[2], refitted=False))
    if pictures is not None:
        attempt(prepared.distill(best()[2], pictures))
    agreement, integer, chosen = best()
    layers = prepared.layer_errors(chosen, integer)
    every = tuple(each[0] for each in tried)
    own = len(images) - drawn
    provenance, count = _provenance(agreement, every, own), len(pictures or ())
    made = replace(integer, provenance={**provenance, "distill_pictures": count} if count else provenance)
    return AutoResult(made, own, len(expected.images), agreement, every, layers, count)


def _has_table(layer: Layer) -> bool:
    return isinstance(layer, Weighted) and isinstance(layer.requantize, ShiftTable)


def _provenance(best: Agreement, tried: Sequence[Agreement], images: int) -> Mapping[str, object]:
    return {
        "scheme": "auto",
        "choice": best.choice,
        "calibration_images": images,
        "tried": [_entry(each) for each in tried],
    }


def _entry(agreement: Agreement) -> Mapping[str, object]:
    shares = {
        "same_label": agreement.same_label,
        "same_objects": agreement.same_objects,
        "objects_of_scores": agreement.objects_of_scores,
    }
    stated = {key: round(share, 4) for key, share in shares.items() if share is not None}
    return {"choice": agreement.choice, "output_error": round(agreement.error, 6), **stated}
