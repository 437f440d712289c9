"""How near an integer network is to its float network: of its outputs, and layer by layer."""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.callbacks import Progress
from edgemeta.model.float_reference import outputs, walk
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import Float32
from edgemeta.model.prove import MAX_OUTPUTS
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import Classification, Detection, Segmentation, Task
from edgemeta.tasks.detection.objects import Detector, Object
from edgemeta.tasks.detection.suppress import overlaps
from edgemeta.tasks.segmentation import cells_of_numbers
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.quantize.blocks import Block
from edgemeta.toolchain.quantize.calibration import PreparedImages
from edgemeta.toolchain.quantize.channels import Grid
from edgemeta.toolchain.quantize.events import Agreement
from edgemeta.toolchain.quantize.parallel import in_order, processors
from edgemeta.toolchain.quantize.run import integer_session, needed

SAME_PLACE = 0.5
"""Least intersection over union of two objects that are the same."""
SCORES = tuple(step / 20 for step in range(1, 20))
"""Least scores 0.05 .. 0.95 at which the objects of two networks are compared."""


class Matches:
    """Counts of objects over images: of the float network, of the integer network, and those in both.

    An object of the integer network, best first, is that of the float network with its label that overlaps it most, by
    at least one half, and that no better one has taken.
    """

    def __init__(self) -> None:
        self.wanted = self.found = self.matched = 0
        self._overlap = 0.0
        self._points_off: list[float] = []
        self._at_scores = np.zeros((len(SCORES), 2))

    def add(self, wanted: Sequence[Object], found: Sequence[Object]) -> None:
        """Count the objects of one image, each best first."""
        self.wanted += len(wanted)
        self.found += len(found)
        if not wanted or not found:
            return
        shared = overlaps(_corners(found), _corners(wanted))
        for number, each in enumerate(found):
            shared[number, [other.label != each.label for other in wanted]] = 0
            best = int(shared[number].argmax())
            if shared[number, best] >= SAME_PLACE:
                self.matched += 1
                self._overlap += float(shared[number, best])
                if each.keypoints:
                    self._points_off.append(_points_off(wanted[best], each))
                shared[:, best] = 0

    def add_at_all_scores(self, wanted: Sequence[Object], found: Sequence[Object]) -> None:
        """Count the objects of one image at each of SCORES: one of score 0.9 counts eighteen times, one of 0.1 twice.

        So a score that moves a little changes little, wherever the threshold of a user lies.
        """
        for number, least in enumerate(SCORES):
            before = self.wanted + self.found, self._overlap
            self.add(*([each for each in some if each.score >= least] for some in (wanted, found)))
            self._at_scores[number] += np.subtract((self.wanted + self.found, self._overlap), before)

    @property
    def f1(self) -> float:
        """Twice the matched objects through all; 1 if neither network finds any."""
        every = self.wanted + self.found
        return 2 * self.matched / every if every else 1.0

    @property
    def quality_of_scores(self) -> float:
        """Mean of the panoptic quality at each of SCORES, weighted by the root of the objects there; 1 without any.

        A pair counts by its intersection over union (Kirillov et al., 2019), so that boxes that move count before they
        are lost. The hundreds of objects of the least scores do not outvote the few that a user sees.
        """
        every, overlap = self._at_scores[self._at_scores[:, 0] > 0].T
        return float((2 * overlap / np.sqrt(every)).sum() / np.sqrt(every).sum()) if len(every) else 1.0

    @property
    def points_off(self) -> float | None:
        """Mean distance of the points of matched objects, as a share of the box's side; None without points."""
        return float(np.mean(self._points_off)) if self._points_off else None


def _points_off(wanted: Object, found: Object) -> float:
    """Mean distance of the points of two objects through the root of the area of the first one's box."""
    apart = [np.hypot(a.x - b.x, a.y - b.y) for a, b in zip(wanted.keypoints, found.keypoints, strict=True)]
    left, top, right, bottom = wanted.box
    return float(np.mean(apart) / np.sqrt((right - left) * (bottom - top)))


def _corners(objects: Sequence[Object]) -> NDArray[np.float64]:
    return np.array([each.box for each in objects], np.float64)


_MOST_NUMBERS = 1 << 24
"""Float outputs that are kept for comparisons: 64 MiB."""
_TINY = 1e-30


@dataclass(frozen=True)
class LayerError:
    """Signal-to-quantization-noise ratio of one tensor in dB, errors of all layers before it included.

    It is ten times the decimal logarithm of the mean square of the float tensor through that of the difference.
    """

    layer: str
    kind: str
    decibels: float


def compared(model: FloatModel, images: PreparedImages) -> PreparedImages:
    """Those of some images whose float outputs fit into memory together."""
    shapes = prove_float(model, model.name)
    return images.chosen(max(1, _MOST_NUMBERS // sum(math.prod(shapes[name]) for name in model.outputs)))


class Expected:
    """The outputs of a float network on some of the calibration images, to compare integer networks with.

    known: its outputs for each of `compared(model, images)`, if it has run already.
    """

    def __init__(
        self,
        model: FloatModel,
        images: PreparedImages,
        stage: Progress | None = None,
        known: Sequence[tuple[Float32, ...]] | None = None,
    ) -> None:
        self.images = compared(model, images)
        self._compares_labels, self._task = model.is_classification, model.task
        detector = FloatDetector(model, _all_scores(model.task)) if isinstance(model.task, Detection) else None
        self._wanted: list[tuple[Float32, ...]] = []
        self._objects: list[tuple[Object, ...]] = []
        run = in_order(lambda image: outputs(model, self.images.real(image)), self.images)
        for done, found in enumerate(run if known is None else known, 1):
            self._wanted.append(found)
            if detector is not None:
                self._objects.append(detector.objects(found))
            if stage is not None:
                stage(done, len(self.images))
        self._variances = [self._variance(number) for number in range(len(model.outputs))]

    def measure(self, integer: Model, choice: str, stage: Progress | None = None) -> Agreement:
        """Run an integer network on the images and compare its outputs."""
        off, same, matches = np.zeros(len(self._variances)), 0.0, Matches()
        detector = (
            Detector(integer, _all_scores(integer.task), outlines=False, by_label=True) if self._objects else None
        )
        with closing(integer_session(integer, threads=processors())) as session:
            for number, (image, wanted) in enumerate(zip(self.images, self._wanted, strict=True)):
                integers = session.run(image)
                found = [real(integer, name, each) for name, each in zip(integer.outputs, integers, strict=True)]
                off += [float(np.square(self._centred(f - w)).mean()) for f, w in zip(found, wanted, strict=True)]
                same += self._equal(found[0], wanted[0])
                if detector is not None:
                    found_objects = detector.objects(tuple(each[0] for each in integers))
                    matches.add_at_all_scores(self._objects[number], found_objects)
                if stage is not None:
                    stage(number + 1, len(self.images))
        errors = tuple((off / len(self.images) / self._variances).tolist())
        has_labels = isinstance(self._task, Classification | Segmentation)
        labels = same / len(self.images) if has_labels else None
        objects, of_scores = (matches.f1, matches.quality_of_scores) if matches.wanted else (None, None)
        return Agreement(choice, float(np.mean(errors)), errors, labels, objects, matches.points_off, of_scores)

    def _equal(self, found: NDArray[Any], wanted: NDArray[Any]) -> float:
        """Whether an image has the same label, or the share of its cells that have."""
        if isinstance(self._task, Segmentation):
            return float((cells_of_numbers(self._task, found) == cells_of_numbers(self._task, wanted)).mean())
        return float(found.argmax() == wanted.argmax())

    def _centred(self, values: NDArray[Any]) -> NDArray[Any]:
        return values - values.mean() if self._compares_labels else values

    def _variance(self, number: int) -> float:
        if self._compares_labels:
            each = [np.square(self._centred(wanted[number]), dtype=np.float64).mean() for wanted in self._wanted]
            return max(float(np.mean(each)), _TINY)
        means = [wanted[number].mean(dtype=np.float64) for wanted in self._wanted]
        squares = [np.square(wanted[number].astype(np.float64)).mean() for wanted in self._wanted]
        return max(float(np.mean(squares) - np.mean(means) ** 2), _TINY)


def _all_scores(task: Task) -> dict[str, float]:
    """Thresholds with which a detection finds everything that is compared."""
    return dict.fromkeys(task.labels, SCORES[0]) if isinstance(task, Detection) else {}


def real(model: Model, output: str, integers: NDArray[np.generic]) -> NDArray[np.float64]:
    """The real numbers that an output's integers [..., C] represent."""
    kind = model.types[output]
    values: NDArray[np.float64] = (integers.astype(np.float64) - kind.zero_point) * model.steps(output)
    return values


def layer_errors(
    model: FloatModel,
    blocks: Sequence[Block],
    integer: Model,
    images: PreparedImages,
    stage: Progress | None = None,
    grids: Mapping[str, Grid] | None = None,
) -> tuple[LayerError, ...]:
    """The error of every layer's tensor on these images, worst first. grids: of those with a scale for each channel."""
    grids = grids or {}
    names = [block.name for block in blocks]
    parts = [names[i : i + MAX_OUTPUTS] for i in range(0, len(names), MAX_OUTPUTS)]
    after = {block.after: block.name for block in blocks}
    signal, noise = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    with ExitStack() as stack:
        models = [needed(integer, part) for part in parts]
        sessions = [stack.enter_context(closing(integer_session(each, compared=0))) for each in models]
        for done, image in enumerate(images, 1):
            found: dict[str, NDArray[np.generic]] = {}
            for part, session in zip(parts, sessions, strict=True):
                found |= zip(part, session.run(image), strict=True)
            for tensor, wanted in walk(model, images.real(image)):
                name = after.get(tensor)
                if name is not None:
                    signal[name] += float(np.square(wanted, dtype=np.float64).sum())
                    grid, kind = grids.get(name), integer.types[name]
                    reals = grid.reals(found[name], kind) if grid else real(integer, name, found[name])
                    noise[name] += float(np.square(reals - wanted).sum())
            if stage is not None:
                stage(done, len(images))
    kinds = {block.name: type(block.core).__name__ for block in blocks}
    errors = [LayerError(name, kinds[name], decibels(signal[name], noise[name])) for name in names]
    return tuple(sorted(errors, key=lambda error: error.decibels))


def decibels(signal: float, noise: float) -> float:
    """Signal-to-noise ratio of two mean squares in dB, to hundredths."""
    return round(10 * math.log10(max(signal, _TINY) / max(noise, _TINY)), 2)
