"""The people in a clip, by YOLOX-nano as our import reads it, run by ONNX Runtime in float."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import onnxruntime

from benchmarks.detection_accuracy import maps
from edgemeta.model.tasks import Detection
from edgemeta.toolchain.data.frames import ClipFrames
from edgemeta.toolchain.evaluate.float_detector import FloatDetector
from edgemeta.toolchain.float_model.file import load_float_model
from edgemeta.toolchain.importer.import_network import import_network
from edgemeta.toolchain.importer.pixels import Pixels
from edgemeta.toolchain.quantize.calibration import PreparedImages

PERSON = 0
"""Number of the label among the 80 of COCO."""

Boxes: TypeAlias = list[tuple[float, float, float, float, float]]
"""Score, left, top, right and bottom side of each person, in pixels of the frame."""


def people(network: Path, clip: Path, least_score: float) -> list[Boxes]:
    """The people of every frame."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "yolox.safetensors"
        import_network(network, file, Pixels(colour="bgr", crop="letterbox", fill=(114,), align="corner"))
        model = load_float_model(file)
    task = model.task
    assert isinstance(task, Detection)
    model = replace(model, task=replace(task, score_threshold=least_score))
    session = onnxruntime.InferenceSession(str(network))
    (image_name,) = (each.name for each in session.get_inputs())
    frames = ClipFrames(clip, 1 << 20)
    height, width = next(iter(frames)).shape[:2]
    scale = min(model.input_shape[0] / height, model.input_shape[1] / width)
    detector, images = FloatDetector(model), PreparedImages(model, frames)
    found = []
    for image in images:
        (rows,) = session.run(None, {image_name: images.real(image).transpose(0, 3, 1, 2).copy()})
        objects = detector.objects(maps(model, rows[0]))
        boxes: Boxes = []
        for each in objects:
            x0, y0, x1, y1 = (side / scale for side in each.box)
            if each.label == task.labels[PERSON]:
                boxes.append((each.score, x0, y0, x1, y1))
        found.append(boxes)
    return found
