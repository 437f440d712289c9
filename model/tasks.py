"""Records of a model's task: what its outputs mean. How they become labels, objects and vectors is in `edgemeta.tasks`.

An output's integer q of channel c represents step[c] * (q - zero_point) (`Model.steps`). sigmoid(v) = 1 / (1 + e**-v).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

MIN_SCORE, MAX_SCORE = 0.001, 0.999
"""Score thresholds lie between these."""
MAX_KEYPOINTS = 512
"""Greatest number of points of keypoints."""
MAX_NUMBERS = 4096
"""Greatest number of numbers of raw outputs: a message has them all, in at most about 50 kB of JSON."""
MAX_CANDIDATES = 1000
"""Greatest number of candidates of an image that are decoded and compared, and of its objects."""


@dataclass(frozen=True)
class Rejection:
    """When a classification gives no label: the image shows nothing that the network knows.

    The evidence of an image is one integer: the sum of the integers of `outputs`, each of shape (1, 1, 1) and of one
    scale, or the greatest logit where there are none. The image is unknown if its evidence is less than the threshold.
    No other number takes part, so every backend rejects the same images. The threshold lies between the least and the
    greatest sum that the outputs' types allow.
    """

    threshold: int
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Classification:
    """One output (1, 1, labels), a logit per label; the predicted label has the greatest one, at a tie the first.

    temperature: divisor of the logits before the softmax (temperature scaling), 0.01 .. 100, so that a score equals the
    share of correctly classified images at that score. It does not change the order of labels.
    rejection: when there is no label, or None: there always is one. Its outputs are the model's others, in order.
    """

    labels: tuple[str, ...]
    temperature: float = 1.0
    rejection: Rejection | None = None


@dataclass(frozen=True)
class MultiLabel:
    """One output (1, 1, labels); every label is present or not, independently. Its score is sigmoid(logit).

    score_threshold: a label is present from this score on, 0.001 .. 0.999.
    """

    labels: tuple[str, ...]
    score_threshold: float = 0.5


@dataclass(frozen=True)
class Embedding:
    """One output (1, 1, D), a vector to compare with others by cosine similarity; it is divided by its length."""


PointLayout: TypeAlias = Literal["xy", "xyz", "xys", "yxs"]
PointUnit: TypeAlias = Literal["pixels", "fraction"]


@dataclass(frozen=True)
class Keypoints:
    """One output (1, 1, K len(layout)): numbers of K named points of one thing, as the landmarks of a face.

    layout: the numbers of each point in their order, x from left to right, y from top to bottom, z a depth, which is
    not read, s a score, which is limited to 0 .. 1. unit: of x and y: pixels of the input, or fractions of its width
    and height. names: at most 512, each once.
    """

    names: tuple[str, ...]
    layout: PointLayout = "xy"
    unit: PointUnit = "pixels"


@dataclass(frozen=True)
class Segmentation:
    """One output (H, W, C): a label for each cell of a grid of H rows and W columns over the input.

    With several labels there is a channel for each, all of one scale: a cell has the label of its greatest integer, at
    a tie the first. With one label there is one channel: a cell has the label if sigmoid(number) is at least
    score_threshold, which is a comparison with an integer, and no label otherwise.

    A label is present if it has at least least_share (0 .. 1) of the cells that show the frame. score_threshold is
    0.001 .. 0.999, and there are at most 1,000 labels.
    """

    labels: tuple[str, ...]
    score_threshold: float = 0.5
    least_share: float = 0.01


@dataclass(frozen=True)
class Raw:
    """Outputs of any shapes (H, W, C), whose numbers mean what the user knows: the last resort.

    names: of the outputs in messages, in their order. All outputs together have at most 4,096 numbers, in the order of
    rows, columns and channels.
    """

    names: tuple[str, ...]


@dataclass(frozen=True)
class DetectionLevel:
    """The outputs of one grid of H x W cells, with A anchors (A = 1 without); channels are grouped by anchor.

    boxes: name of the output (H, W, 4 A), or (H, W, 4 bins A) for "yolov8"; None for "cells". objectness: of the output
    (H, W, A), or None. classes: of the output (H, W, A L), L labels, or (H, W, A (L + 1)) with a background class 0.
    extras: of the output (H, W, A E) with what belongs to an object beside its box (`Detection.extras`), or None.
    sizes: of the output (H, W, 2 A) with the last two of the four numbers of a box, `boxes` then having the first two.
    anchors: width and height of each of 1 to 16 anchors in pixels of the input; empty: one with the sides of the
    stride, which yolox and cells require and yolov3, yolov5, ssd and fastestdet refuse. stride: (sx, sy), pixels of the
    input from one cell to the next; None: the input's width and height divided by the grid's. Sides are above 0 and at
    most 1e6. All levels or none have objectness; `softmax` needs it, and a background class excludes both.
    """

    boxes: str | None
    classes: str
    objectness: str | None = None
    anchors: tuple[tuple[float, float], ...] = ()
    stride: tuple[float, float] | None = None
    extras: str | None = None
    sizes: str | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """Its outputs: boxes, objectness, classes, extras, sizes."""
        every = (self.boxes, self.objectness, self.classes, self.extras, self.sizes)
        return tuple(name for name in every if name is not None)


@dataclass(frozen=True)
class ObjectPoints:
    """K named points of each object, such as the joints of a person: E = K len(layout) numbers.

    Numbers t of a point in a cell (x, y) give ((x + o) sx + f t0 ux, (y + o) sy + f t1 uy) in pixels of the input, o
    being the `origin` (0 .. 1), f the `factor` (0.001 .. 1,000), (sx, sy) the level's stride, and (ux, uy) that or the
    anchor's sides, by `unit`. With "xys" its score is sigmoid(t2). A point may lie outside of the box. names: at most
    512, each once.
    """

    names: tuple[str, ...]
    layout: Literal["xy", "xys"] = "xy"
    origin: float = 0.5
    factor: float = 1.0
    unit: Literal["stride", "anchor"] = "stride"


@dataclass(frozen=True)
class ObjectMasks:
    """The shape of each object: E coefficients of one output's channels.

    prototypes: name of the output (H, W, E), a grid of cells over the whole input. A cell belongs to an object if the
    sum over its channels of coefficient times prototype is above 0, and if it is inside of the object's box.
    """

    prototypes: str


Decoding: TypeAlias = Literal[
    "yolox", "yolov3", "yolov5", "yolov8", "distances", "exponential", "ssd", "linear", "fastestdet", "cells"
]
"""How numbers become boxes: `Detection.decoding`."""
WITH_ANCHORS: frozenset[Decoding] = frozenset(["yolov3", "yolov5", "ssd", "fastestdet"])
"""Decodings that need the sides of anchors."""
WITHOUT_ANCHORS: frozenset[Decoding] = frozenset(["yolox", "cells"])
"""Decodings that measure in strides; the others do so where a level has no anchors."""


@dataclass(frozen=True)
class Detection:
    """Objects with boxes. The model's outputs are those of the levels, each once, then the prototypes of masks.

    decoding: how the numbers t of a cell (x, y) become a box in pixels of the input, (sx, sy) being the level's stride,
    aw, ah the anchor's sides, o the `origin` and u, v the `variances`:

    - yolox: centre ((x + t0) sx, (y + t1) sy), size (e**t2 sx, e**t3 sy)
    - yolov3: centre ((x + sigmoid(t0)) sx, (y + sigmoid(t1)) sy), size (e**t2 aw, e**t3 ah)
    - yolov5: centre ((x + 2 sigmoid(t0) - 1/2) sx, (y + 2 sigmoid(t1) - 1/2) sy), size ((2 sigmoid(t2))**2 aw,
      (2 sigmoid(t3))**2 ah)
    - yolov8: four distributions of `bins` numbers each, whose expectations d under softmax are the distances from a
      point of the cell to the sides: ((x + o) sx - d0 aw, (y + o) sy - d1 ah) to ((x + o) sx + d2 aw, (y + o) sy +
      d3 ah)
    - distances: the same, of four numbers d; exponential: of four powers, d = e**t
    - ssd: centre ((x + o) sx + u t0 aw, (y + o) sy + u t1 ah), size (e**(v t2) aw, e**(v t3) ah)
    - linear: centre ((x + o) sx + t0 aw, (y + o) sy + t1 ah), size (t2 aw, t3 ah)
    - fastestdet: centre ((x + tanh(t0)) sx, (y + tanh(t1)) sy), size (sigmoid(t2) aw, sigmoid(t3) ah)
    - cells: the cell itself, (x sx, y sy) to ((x + 1) sx, (y + 1) sy)

    With `box_order` "yxhw" the numbers come as t1, t0, t3, t2. They are limited to -700 .. 700 and the exponents of
    sizes to 20, so that every box is finite.

    Each cell and anchor gives at most one candidate, of the label with the greatest logit (at a tie the first). Its
    score is the sigmoid of that logit, with `softmax` the softmax over the labels, to the power of `powers[1]`, times
    the sigmoid of the objectness to the power of `powers[0]`, where there is one; with `background` it is the softmax
    over the classes, of which number 0 is no object. Candidates that score less than score_threshold are
    left out; of the others the best 1,000 are looked at, the greatest score first, at a tie in the order of
    levels, rows, columns and anchors. One without an area inside of the input is left out, and one whose intersection
    over union with a better object of its label exceeds overlap_threshold. Then, best first, so is one that exceeds
    label_overlap with a better object of another label that remains: both are one object. None: labels do not exclude
    each other. At most max_objects remain. Their boxes are then clipped to the input.

    extras: what each object has beside its box, from the numbers of its cell and anchor in the extras of its level.

    Limits: 2 to 64 bins; origin 0 .. 1; variances and powers 0.001 .. 1,000; score_threshold 0.001 .. 0.999; overlaps
    above 0 and below 1; 1 to 1,000 objects; 2**20 cells times anchors in all.
    """

    labels: tuple[str, ...]
    decoding: Decoding
    levels: tuple[DetectionLevel, ...]
    background: bool = False
    box_order: Literal["xywh", "yxhw"] = "xywh"
    score_threshold: float = 0.4
    overlap_threshold: float = 0.5
    label_overlap: float | None = None
    max_objects: int = 100
    bins: int = 16
    origin: float = 0.5
    variances: tuple[float, float] = (0.1, 0.2)
    softmax: bool = False
    powers: tuple[float, float] = (1.0, 1.0)
    extras: ObjectPoints | ObjectMasks | None = None

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs that it reads."""
        of_levels = tuple(name for level in self.levels for name in level.outputs)
        return (*of_levels, self.extras.prototypes) if isinstance(self.extras, ObjectMasks) else of_levels


Task: TypeAlias = Classification | MultiLabel | Detection | Embedding | Segmentation | Keypoints | Raw


def labels_of(task: Task) -> tuple[str, ...]:
    """Labels that a task can name; none for an embedding, keypoints and raw outputs."""
    return () if isinstance(task, Embedding | Keypoints | Raw) else task.labels


def compares_channels(task: Task) -> bool:
    """Whether the integers of an output's channels are compared, so that all need one scale."""
    return isinstance(task, Classification) or (isinstance(task, Segmentation) and len(task.labels) > 1)


TaskName: TypeAlias = Literal[
    "classification", "multi-label", "detection", "embedding", "segmentation", "keypoints", "raw"
]

_NAMES: Mapping[type, TaskName] = {
    Classification: "classification",
    MultiLabel: "multi-label",
    Detection: "detection",
    Embedding: "embedding",
    Segmentation: "segmentation",
    Keypoints: "keypoints",
    Raw: "raw",
}


def task_name(task: Task) -> TaskName:
    """Name of a task for people and options, such as "multi-label"."""
    return _NAMES[type(task)]
