"""Small proved models with a detection's outputs, and output integers for them."""

from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import Conv, Layer, Multiplier, TensorType
from edgemeta.model.prove import prove
from edgemeta.model.tasks import Detection, DetectionLevel, ObjectMasks, ObjectPoints
from edgemeta.model.weights import FixedWeights

Kind = Literal["int8", "uint8", "int32", "int32 by channel"]
KINDS: tuple[Kind, ...] = ("int8", "uint8", "int32", "int32 by channel")
ANCHORS = ((10.0, 14.0), (23.0, 27.0), (37.0, 58.0))
_POINTS = ObjectPoints(("left", "right", "low"), origin=0.5, factor=0.1, unit="anchor")
DECODINGS = (
    *(
        "yolox",
        "yolov3",
        "yolov8",
        "ssd",
        "ssd with background",
        "yolov5",
        "distances",
        "exponential",
        "linear",
        "fastestdet",
    ),
    *("cells with background", "yolov8 of 8 bins", "distances with anchors", "linear with anchors"),
    *("yolov8 with points", "ssd with points", "yolox with masks"),
)


def detection_model(
    decoding: str,
    labels: int = 5,
    image: tuple[int, int] = (64, 48),
    strides: tuple[int, ...] = (8, 16),
    kind: Kind = "int8",
    scale: float = 0.05,
    **settings: Any,
) -> Model:
    """A model for images of (H, W) whose levels have convolutions of one pixel for each output."""
    name = decoding.split()[0]
    background = decoding.endswith("background")
    has_anchors = name in ("yolov3", "yolov5", "ssd", "fastestdet") or decoding.endswith("anchors")
    anchors = ANCHORS if has_anchors else ()
    if name == "fastestdet":
        settings = {"softmax": True, "powers": (0.6, 0.4)} | settings
    bins = 8 if "bins" in decoding else 16
    number = max(1, len(anchors))
    extras: ObjectPoints | ObjectMasks | None = None
    if decoding.endswith("points"):
        extras = _POINTS if has_anchors else ObjectPoints(("nose", "tail"), "xys", 0.0, 2.0)
    elif decoding.endswith("masks"):
        extras = ObjectMasks("prototypes")
    has_objectness = name in ("yolox", "yolov3", "yolov5", "fastestdet")
    layers: list[Layer] = []
    levels = []
    for i, stride in enumerate(strides):
        grid = image[0] // stride, image[1] // stride
        parts = {"boxes": (4 * bins if name == "yolov8" else 4) * number, "classes": (labels + background) * number}
        if name == "cells":
            del parts["boxes"]
        if has_objectness:
            parts["objectness"] = number
        if extras is not None:
            parts["extras"] = number * (6 if isinstance(extras, ObjectPoints) else 4)
        for part, channels in parts.items():
            layers.append(_convolution(f"{part}{i}", (*grid, channels), stride, kind, scale))
        gate, boxes = f"objectness{i}" if has_objectness else None, f"boxes{i}" if "boxes" in parts else None
        beside = None if extras is None else f"extras{i}"
        levels.append(DetectionLevel(boxes, f"classes{i}", gate, anchors, extras=beside))
    if isinstance(extras, ObjectMasks):
        layers.append(_convolution("prototypes", (image[0] // 4, image[1] // 4, 4), 4, kind, scale))
    task = Detection(tuple(f"label {i}" for i in range(labels)), name, tuple(levels), background)  # type: ignore[arg-type]
    table = np.arange(256, dtype=np.uint8)[np.newaxis]
    model = Model(
        "detection",
        TensorType((*image, 3), signed=False),
        tuple(layers),
        tuple(layer.name for layer in layers),
        replace(task, bins=bins, extras=extras, **settings),
        Preprocessing("full", "rgb", table),
    )
    prove(model)
    return model


def _convolution(name: str, shape: tuple[int, int, int], stride: int, kind: Kind, scale: float) -> Conv:
    rng = np.random.default_rng(sum(name.encode()))
    integers = rng.integers(-128, 128, (shape[2], 1, 1, 3)).astype(np.int8)
    if kind.startswith("int32"):
        steps = rng.uniform(0.5, 2, shape[2]) * scale if kind == "int32 by channel" else np.array([1.0])
        output = TensorType(shape, bits=32, scale=1.0 if kind == "int32 by channel" else scale)
        return Conv(name, "input", output, weights=FixedWeights(integers, 8, steps), bias=None, stride=(stride, stride))
    output = TensorType(shape, 8, kind == "int8", -7 if kind == "int8" else 121, scale)
    requantize = Multiplier(np.array([1 << 20], np.int32), np.array([29], np.uint8), output.lo, output.hi)
    return Conv(
        name,
        "input",
        output,
        weights=FixedWeights(integers, 8, np.array([1.0])),
        bias=None,
        stride=(stride, stride),
        requantize=requantize,
    )


def random_outputs(model: Model, seed: int, spread: float = 60.0, shift: float = 0.0) -> tuple[NDArray[Any], ...]:
    """Output integers, normal about the zero point plus `shift` steps."""
    rng = np.random.default_rng(seed)
    return tuple(
        np.clip(np.rint(rng.normal(kind.zero_point + shift, spread, kind.shape)), kind.lo, kind.hi).astype(kind.dtype)
        for kind in model.output_types
    )


def constant_outputs(model: Model, value: Literal["lo", "hi", "zero"]) -> tuple[NDArray[Any], ...]:
    """Every integer the least, the greatest, or the zero point."""
    return tuple(
        np.full(kind.shape, {"lo": kind.lo, "hi": kind.hi, "zero": kind.zero_point}[value], kind.dtype)
        for kind in model.output_types
    )
