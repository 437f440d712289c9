"""The families of detections that are known: how their files end, how they decode, what they take for an image.

One record for each; the first that fits counts. A file that decodes itself shows its formula and constants; of one that
ends with its convolutions the record says them, where no other family ends so.
"""

from collections.abc import Callable
from dataclasses import dataclass

from edgemeta.model.tasks import ObjectPoints
from edgemeta.toolchain.importer.heads import layouts
from edgemeta.toolchain.importer.heads.formula import Formula, Grid
from edgemeta.toolchain.importer.heads.layouts import Layout, Split
from edgemeta.toolchain.importer.heads.points import BLAZE_FACE, BLAZE_PALM, BLAZE_POSE, FACE
from edgemeta.toolchain.importer.pixels import IMAGENET, Pixels

_ULTRALYTICS = Pixels((0.0,), (255.0,), "rgb", "letterbox", (114,), "center")
_YOLOX = Pixels((0.0,), (1.0,), "bgr", "letterbox", (114,), "corner")
_OPENMMLAB = Pixels(IMAGENET[0][::-1], IMAGENET[1][::-1], "bgr", "letterbox", (114,), "corner")
_NANODET = Pixels(IMAGENET[0][::-1], IMAGENET[1][::-1], "bgr", "full")
_FACES = Pixels((127.5,), (127.5,), "rgb", "letterbox", (0,), "center")

Rule = Callable[[tuple[int, int], tuple[Split, ...]], tuple[Grid, ...] | None]
"""Anchors and strides for an image (H, W) that a family states outside of its files; None: not for these grids."""


@dataclass(frozen=True)
class Family:
    """A way in which detections end.

    ends: the convolutions of each grid, for people. formula: of its boxes and scores. counts: numbers of anchors (or of
    bins) that are tried where the convolutions do not show it. is_by_ends: whether its convolutions alone show it, so
    that a file need not decode. takes_anchors: whether they do together with anchors that the user gives. rule: anchors
    and strides of a file that has none. origin: if the file shows another one, it is another family. labels: if the
    family has its own. points: those of its objects, where the file does not decode them.
    """

    name: str
    ends: str
    layout: Layout
    formula: Formula
    pixels: Pixels
    counts: tuple[int, ...] = (0,)
    is_by_ends: bool = False
    takes_anchors: bool = False
    rule: Rule | None = None
    origin: float | None = None
    labels: tuple[str, ...] | None = None
    points: ObjectPoints | None = None


def _strides(wanted: tuple[int, ...], anchors: int = 0) -> Rule:
    """Grids of these strides, whose sides are rounded up; each with so many anchors that have the stride's sides."""

    def rule(image: tuple[int, int], splits: tuple[Split, ...]) -> tuple[Grid, ...] | None:
        if [split.classes.end.shape[:2] for split in splits] != [
            tuple(-(-side // s) for side in image) for s in wanted
        ]:
            return None
        sides = [(float(stride), float(stride)) for stride in wanted]
        return tuple(Grid((side,) * anchors, side) for side in sides)

    return rule


def _ultra_face(image: tuple[int, int], splits: tuple[Split, ...]) -> tuple[Grid, ...] | None:
    """Ultra-Light-Fast-Generic-Face-Detector: `define_img_size` of its vision/ssd/config/fd_config.py."""
    sides = ((10.0, 16.0, 24.0), (32.0, 48.0), (64.0, 96.0), (128.0, 192.0, 256.0))
    if [split.anchors for split in splits] != [3, 2, 2, 3] or [split.count for split in splits] != [2] * 4:
        return None
    grids = _strides((8, 16, 32, 64))(image, splits)
    if grids is None:
        return None
    return tuple(Grid(tuple((s, s) for s in each), grid.stride) for each, grid in zip(sides, grids, strict=True))


def _pixels_of_anchors(_: tuple[int, int], splits: tuple[Split, ...]) -> tuple[Grid, ...] | None:
    """MediaPipe's SsdAnchorsCalculator with a fixed size: all anchors of a cell are its centre, numbers are pixels."""
    return tuple(Grid(((1.0, 1.0),) * split.anchors, None) for split in splits)


def _fours(image: tuple[int, int], splits: tuple[Split, ...]) -> tuple[Grid, ...] | None:
    """One grid of 4 pixels, by which sizes are measured."""
    return _strides((4,), 1)(image, splits)


def _whole_image(image: tuple[int, int], splits: tuple[Split, ...]) -> tuple[Grid, ...] | None:
    """Sizes are shares of the image."""
    return tuple(Grid(((float(image[1]), float(image[0])),), None) for _ in splits)


def _fastest_v2(image: tuple[int, int], splits: tuple[Split, ...]) -> tuple[Grid, ...] | None:
    """Yolo-FastestV2: data/coco.data."""
    fine = ((12.64, 19.39), (37.88, 51.48), (55.71, 138.31))
    coarse = ((126.91, 78.23), (131.57, 214.55), (279.92, 258.87))
    return (Grid(fine, None), Grid(coarse, None)) if image == (352, 352) and len(splits) == 2 else None


def _yolo_v2(image: tuple[int, int], splits: tuple[Split, ...]) -> tuple[Grid, ...] | None:
    """Its grid; the anchors are those of a training, which differ."""
    return _strides((32,))(image, splits)


def _scrfd(image: tuple[int, int], splits: tuple[Split, ...]) -> tuple[Grid, ...] | None:
    """Distances in strides, for each anchor alike."""
    return _strides((8, 16, 32), splits[0].anchors)(image, splits)


def _retina_face(image: tuple[int, int], splits: tuple[Split, ...]) -> tuple[Grid, ...] | None:
    """RetinaFace: `min_sizes` of data/config.py."""
    grids = _strides((8, 16, 32))(image, splits)
    sides = ((16.0, 32.0), (64.0, 128.0), (256.0, 512.0))
    if grids is None:
        return None
    return tuple(Grid(tuple((s, s) for s in each), grid.stride) for each, grid in zip(sides, grids, strict=True))


def _cells(_: tuple[int, int], splits: tuple[Split, ...]) -> tuple[Grid, ...] | None:
    return tuple(Grid((), None) for _ in splits)


_MOST_FIRST = tuple(range(16, 0, -1))
"""Of one convolution with more anchors than are tried, the rest would be taken for labels."""
_BINS = (16, 17, 8, *range(2, 8), *range(9, 16), *range(18, 34))

FAMILIES: tuple[Family, ...] = (
    Family(
        "FastestDet",
        "4, 1 and L channels of one grid: box, objectness, classes by softmax",
        layouts.gated_softmax,
        Formula("fastestdet", softmax=True, powers=(0.6, 0.4)),
        Pixels((0.0,), (255.0,), "bgr", "full"),
        is_by_ends=True,
        rule=_whole_image,
    ),
    Family(
        "YuNet",
        "4, 1, 1 and 10 channels: box, objectness, face, keypoints",
        layouts.faces,
        Formula("yolox", powers=(0.5, 0.5)),
        Pixels((0.0,), (1.0,), "bgr", "letterbox", (0,), "corner"),
        is_by_ends=True,
        rule=_cells,
        labels=("face",),
        points=ObjectPoints(FACE, origin=0.0),
    ),
    Family(
        "YOLOX",
        "4, 1 and L channels: box, objectness, classes",
        layouts.gated,
        Formula("yolox"),
        _YOLOX,
        is_by_ends=True,
        rule=_cells,
    ),
    Family(
        "YOLOv8",
        "64 and L channels: four distances of 16 numbers, classes (YOLOv8, 9, 10, 11, 12; Ultralytics' YOLOv3, 5, 6)",
        layouts.pairs(16),
        Formula("yolov8"),
        _ULTRALYTICS,
        is_by_ends=True,
        rule=_cells,
    ),
    Family(
        "YOLO-NAS",
        "68 and L channels: four distances of 17 numbers, classes",
        layouts.pairs(17),
        Formula("yolov8", bins=17),
        _ULTRALYTICS,
    ),
    Family(
        "RTMDet",
        "4 and L channels: four distances from the corner of a cell, classes",
        layouts.pairs(1),
        Formula("distances"),
        _OPENMMLAB,
        origin=0.0,
    ),
    Family(
        "RTMDet-l",
        "4 and L channels: four powers that are distances from the corner of a cell, classes (RTMDet-m, l, x)",
        layouts.pairs(1),
        Formula("exponential"),
        _OPENMMLAB,
        origin=0.0,
    ),
    Family(
        "YOLO26",
        "4 and L channels: four distances, classes (YOLO26, YOLOv6)",
        layouts.pairs(1),
        Formula("distances"),
        _ULTRALYTICS,
        origin=0.5,
    ),
    Family(
        "PicoDet",
        "L + 32 channels in four grids of 8, 16, 32 and 64 pixels, apart in the outputs: classes, four distances",
        layouts.few_bins(8, joins=False),
        Formula("yolov8", bins=8),
        Pixels(IMAGENET[0], IMAGENET[1], "rgb", "full"),
        is_by_ends=True,
        origin=0.5,
        rule=_strides((8, 16, 32, 64)),
    ),
    Family(
        "NanoDet-Plus",
        "L + 32 channels in four grids of 8, 16, 32 and 64 pixels: classes, four distances from the corner of a cell",
        layouts.few_bins(8, joins=True),
        Formula("yolov8", bins=8, origin=0.0),
        _NANODET,
        is_by_ends=True,
        origin=0.0,
        rule=_strides((8, 16, 32, 64)),
    ),
    Family(
        "NanoDet",
        "L + 32 channels in three grids of 8, 16 and 32 pixels: classes, four distances",
        layouts.few_bins(8, joins=None),
        Formula("yolov8", bins=8),
        _NANODET,
        is_by_ends=True,
        origin=0.5,
        rule=_strides((8, 16, 32)),
    ),
    Family(
        "YOLOv5",
        "A (5 + L) channels: box, objectness and classes of each anchor (YOLOv5, YOLOv7)",
        layouts.joined,
        Formula("yolov5"),
        _ULTRALYTICS,
        counts=_MOST_FIRST,
    ),
    Family(
        "YOLOv2",
        "5 (5 + L) channels of one grid of 32 pixels: box, objectness and classes by softmax of each anchor",
        layouts.joined,
        Formula("yolov3", softmax=True),
        Pixels((0.0,), (255.0,), "rgb", "full"),
        counts=(5,),
        takes_anchors=True,
        rule=_yolo_v2,
    ),
    Family(
        "YOLOv3",
        "A (5 + L) channels: box, objectness and classes of each anchor",
        layouts.joined,
        Formula("yolov3"),
        Pixels((0.0,), (255.0,), "rgb", "letterbox", (128,), "center"),
        counts=_MOST_FIRST,
        takes_anchors=True,
    ),
    Family(
        "UltraFace",
        "4 A and 2 A channels with 3, 2, 2 and 3 anchors: boxes, background and face",
        layouts.several,
        Formula("ssd"),
        Pixels((127.0,), (128.0,), "rgb", "full"),
        is_by_ends=True,
        rule=_ultra_face,
        labels=("face",),
    ),
    Family(
        "RetinaFace",
        "8, 4 and 20 channels in three grids of 8, 16 and 32 pixels: two boxes, background and face, keypoints",
        layouts.retina_faces,
        Formula("ssd"),
        Pixels((104.0, 117.0, 123.0), (1.0,), "bgr", "letterbox", (0,), "corner"),
        is_by_ends=True,
        rule=_retina_face,
        labels=("face",),
        points=ObjectPoints(FACE, factor=0.1, unit="anchor"),
    ),
    Family(
        "SCRFD",
        "4 A and A channels in three grids of 8, 16 and 32 pixels, perhaps 10 A: four distances, face, keypoints",
        layouts.beside_keypoints,
        Formula("distances", origin=0.0),
        Pixels((127.5,), (128.0,), "rgb", "letterbox", (0,), "corner"),
        is_by_ends=True,
        rule=_scrfd,
        labels=("face",),
        points=ObjectPoints(FACE, origin=0.0),
    ),
    Family(
        "BlazeFace",
        "16 A and A channels: box with six keypoints, face",
        layouts.keypoints_too(16),
        Formula("linear"),
        _FACES,
        is_by_ends=True,
        rule=_pixels_of_anchors,
        labels=("face",),
        points=ObjectPoints(BLAZE_FACE, unit="anchor"),
    ),
    Family(
        "BlazePalm",
        "18 A and A channels: box with seven keypoints, palm",
        layouts.keypoints_too(18),
        Formula("linear"),
        Pixels((0.0,), (255.0,), "rgb", "letterbox", (0,), "center"),
        is_by_ends=True,
        rule=_pixels_of_anchors,
        labels=("palm",),
        points=ObjectPoints(BLAZE_PALM, unit="anchor"),
    ),
    Family(
        "BlazePose",
        "12 A and A channels: box of a person with four keypoints, person",
        layouts.keypoints_too(12),
        Formula("linear"),
        _FACES,
        is_by_ends=True,
        rule=_pixels_of_anchors,
        labels=("person",),
        points=ObjectPoints(BLAZE_POSE, unit="anchor"),
    ),
    Family(
        "Yolo-FastestV2",
        "12, 3 and L channels in two grids: boxes and objectness of three anchors, classes by softmax",
        layouts.shared_classes,
        Formula("yolov5", softmax=True),
        Pixels((0.0,), (255.0,), "bgr", "full"),
        is_by_ends=True,
        rule=_fastest_v2,
    ),
    Family(
        "SSD",
        "4 A and L A channels, or (L + 1) A with class 0 as background (SSD, EfficientDet-Lite)",
        layouts.several,
        Formula("ssd"),
        Pixels((127.5,), (127.5,), "rgb", "full"),
        takes_anchors=True,
    ),
    Family(
        "other distances",
        "4 n and L channels: four distances of n numbers, classes",
        layouts.any_pairs,
        Formula("yolov8"),
        _ULTRALYTICS,
        counts=_BINS,
    ),
    Family(
        "CenterFace",
        "1, 2, 2 and 10 channels of a grid of 4 pixels: face, size, shift (y before x), keypoints",
        layouts.centres(10),
        Formula("ssd", box_order="yxhw", variances=(1.0, 1.0)),
        Pixels((0.0,), (1.0,), "rgb", "full"),
        is_by_ends=True,
        rule=_fours,
        labels=("face",),
    ),
    Family(
        "CenterNet",
        "L, 2 and 2 channels of a grid of 4 pixels: scores of centres, size, shift",
        layouts.centres(0),
        Formula("linear", origin=0.0),
        Pixels((104.04, 113.985, 119.85), (73.695, 69.87, 70.89), "bgr", "letterbox", (0,), "center"),
        is_by_ends=True,
        rule=_cells,
    ),
    Family(
        "FOMO",
        "L + 1 channels of one grid with a softmax: background and labels; each cell is a box",
        layouts.map_of_scores,
        Formula("cells", background=True),
        Pixels((0.0,), (255.0,), "rgb", "center"),
        is_by_ends=True,
        rule=_cells,
    ),
)
