"""Detections of others on photographs: the objects of LiteRT, of the labels of COCO, or of another network."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.cli.options import open_session
from edgemeta.model import reference
from edgemeta.model.float_reference import all_tensors
from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.preprocess import Box, preprocess
from edgemeta.model.tasks import Detection, ObjectMasks
from edgemeta.tasks.detection.objects import Detector, Object
from edgemeta.tasks.results import reader
from edgemeta.toolchain.importer.heads.coco import COCO
from edgemeta.toolchain.importer.heads.task_settings import TaskSettings
from edgemeta.toolchain.importer.import_network import import_network
from tests.tasks.detection.plain import plain_numbers
from tests.toolchain.importer.float_results import float_reader, stand_in

pytestmark = pytest.mark.gate("networks of others in the reference, on several photographs")
Array = NDArray[Any]
FACES = (4, 7, 15, 42, 56)
"""Pictures of coco_val.npz with faces that are not small."""


def pictures(shared_data: Path, numbers: Sequence[int]) -> list[Array]:
    """Photographs, BGR."""
    archive = np.load(shared_data / "detection" / "coco_val.npz")
    jpeg, offsets = archive["jpeg"], archive["offsets"]
    return [cv2.imdecode(jpeg[offsets[i] : offsets[i + 1]], cv2.IMREAD_COLOR) for i in numbers]


def imported(shared_data: Path, tmp_path: Path, name: str, settings: TaskSettings) -> FloatModel | Model:
    (source,) = (shared_data / "networks" / "real").glob(f"*{name}*")
    return import_network(source, tmp_path / "m.safetensors", {}, settings).model


def objects_of(model: FloatModel | Model, picture: Array) -> tuple[tuple[Object, ...], Array]:
    """Objects in pixels of the network's image, and that image [1, H, W, C]."""
    if isinstance(model, Model):
        image = preprocess(picture, model.input, model.preprocessing)[np.newaxis]
        outputs = tuple(each[0] for each in reference.run(model, image))
        result = reader(model, 5)(outputs)
    else:
        stand = stand_in(model)
        bytes_ = replace(stand.preprocessing, table=np.arange(256, dtype=np.uint8)[np.newaxis])
        image = preprocess(picture, stand.input, bytes_)[np.newaxis].astype(np.float32)
        image = ((image - np.array(model.mean)) / np.array(model.scale)).astype(np.float32)
        result = float_reader(model)(all_tensors(model, image))
    return result.objects, image


def iou(a: Sequence[float], b: Sequence[float]) -> float:
    shared = max(min(a[2], b[2]) - max(a[0], b[0]), 0) * max(min(a[3], b[3]) - max(a[1], b[1]), 0)
    return shared / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - shared)


def in_picture(box: Box, model: FloatModel, picture: Array) -> list[float]:
    """A box in shares of the picture, of a stretched frame or of one in the corner of a letterbox."""
    height, width = picture.shape[:2]
    rows, columns, _ = model.input_shape
    longer = max(height / rows, width / columns)
    down, across = (1 / rows, 1 / columns) if model.crop == "full" else (longer / height, longer / width)
    return [box[0] * across, box[1] * down, box[2] * across, box[3] * down]


def test_a_detection_of_coral_gives_the_objects_of_litert(shared_data: Path, tmp_path: Path) -> None:
    """SSD MobileNet v1 with TFLite_Detection_PostProcess, uint8, anchors in the file."""
    from tests.toolchain.importer.test_tail import interpreter_of

    settings = TaskSettings(score_threshold=0.6)
    model = imported(shared_data, tmp_path, "coco_ssd", settings)
    assert isinstance(model, Model)
    assert isinstance(model.task, Detection)
    assert model.task.overlap_threshold == 0.6
    (source,) = (shared_data / "networks" / "real").glob("*coco_ssd*")
    interpreter = interpreter_of(source)
    count = 0
    for picture in pictures(shared_data, (3, 4, 7, 12, 15)):
        objects, image = objects_of(model, picture)
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], image.astype(np.uint8))
        interpreter.invoke()
        boxes, classes, scores, _ = (
            interpreter.get_tensor(each["index"])[0] for each in interpreter.get_output_details()
        )
        for each in objects:
            same = [
                iou([300 * b[1], 300 * b[0], 300 * b[3], 300 * b[2]], each.box)
                for b, label, score in zip(boxes, classes, scores, strict=True)
                if each.label == model.labels[int(label)] and abs(score - each.score) < 0.05
            ]
            assert max(same, default=0) > 0.9
        count += len(objects)
    assert count >= 8


def test_pico_det_finds_what_is_labelled(shared_data: Path, tmp_path: Path) -> None:
    """With its usual preprocessing: most objects that cover a twentieth of a picture."""
    model = imported(shared_data, tmp_path, "picodet", TaskSettings(labels=COCO))
    assert isinstance(model, FloatModel)
    archive = np.load(shared_data / "detection" / "coco_val.npz")
    numbers = (3, 7, 12, 20, 27, 30)
    found = wanted = 0
    for number, picture in zip(numbers, pictures(shared_data, numbers), strict=True):
        height, width = picture.shape[:2]
        objects, _ = objects_of(model, picture)
        mine = archive["box_image"] == number
        for box, label in zip(archive["boxes"][mine], archive["box_label"][mine], strict=True):
            share = box / np.array([width, height, width, height])
            if (share[2] - share[0]) * (share[3] - share[1]) > 0.05:
                wanted += 1
                name = str(archive["labels"][label])
                alike = [iou(in_picture(each.box, model, picture), share) for each in objects if each.label == name]
                found += max(alike, default=0) > 0.5
    assert wanted >= 6
    assert found >= 0.7 * wanted


def test_yunet_finds_the_faces_and_points_of_opencv(shared_data: Path, tmp_path: Path) -> None:
    """FaceDetectorYN runs the same file on the same pixels and decodes it itself: the same faces, points and scores."""
    model = imported(shared_data, tmp_path, "yunet_n_320", TaskSettings(score_threshold=0.6, overlap_threshold=0.3))
    assert isinstance(model, FloatModel)
    (source,) = (shared_data / "networks" / "real").glob("*yunet_n_320*")
    theirs = cv2.FaceDetectorYN.create(str(source), "", (320, 320), 0.6, 0.3)
    count = 0
    for picture in pictures(shared_data, FACES):
        objects, image = objects_of(model, picture)
        _, faces = theirs.detect(image[0].astype(np.uint8))
        assert len(objects) == len(faces)
        for each, face in zip(objects, sorted(faces, key=lambda face: -face[14]), strict=True):
            assert abs(each.score - face[14]) < 1e-4
            x, y, width, height = face[:4]
            wanted = np.clip([x, y, x + width, y + height], 0, 320)
            np.testing.assert_allclose(each.box, wanted, atol=0.05)
            np.testing.assert_allclose([(p.x, p.y) for p in each.keypoints], face[4:14].reshape(5, 2), atol=0.05)
            count += 1
    assert count >= 4


def test_masks_of_an_int8_yolov8_are_those_of_ultralytics(shared_data: Path, tmp_path: Path) -> None:
    """process_mask_native: the sums, resized linearly to the image, above 0, cut to the box; their largest part."""
    model = imported(shared_data, tmp_path, "seg-logical", TaskSettings())
    assert isinstance(model, Model)
    assert isinstance(model.task, Detection)
    assert isinstance(model.task.extras, ObjectMasks)
    position = model.outputs.index(model.task.extras.prototypes)
    shares = []
    with closing(open_session(model, "cpu", None, None)[1]) as session:
        for picture in pictures(shared_data, (3, 4, 7, 15, 20)):
            image = preprocess(picture, model.input, model.preprocessing)[np.newaxis]
            outputs = tuple(each[0] for each in session.run(image))
            sums = mask_sums(model, outputs, outputs[position])
            for each in Detector(model).objects(outputs):
                x0, y0, x1, y1 = (round(side) for side in each.box)
                inside = np.zeros((640, 640), np.uint8)
                inside[y0:y1, x0:x1] = cv2.resize(sums[each], (640, 640))[y0:y1, x0:x1] > 0
                parts, _ = cv2.findContours(inside, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
                wanted, mine = np.zeros_like(inside), np.zeros_like(inside)
                cv2.drawContours(wanted, [max(parts, key=cv2.contourArea)], -1, 1, cv2.FILLED)
                corners = np.rint((np.array(each.outline) - 0.5) * 16).astype(np.int32)
                cv2.fillPoly(mine, [corners], 1, shift=4)
                shares.append((wanted & mine).sum() / (wanted | mine).sum())
    assert len(shares) >= 5
    assert min(shares) > 0.9
    assert np.mean(shares) > 0.97


def mask_sums(model: Model, outputs: Sequence[Array], prototypes: Array) -> dict[Object, Array]:
    """The sum [160, 160] of each object, whose coefficients are those of the cell that makes its box."""
    task = model.task
    assert isinstance(task, Detection)
    boxes, _, scores = plain_numbers(model, outputs)
    numbers = []
    for level in task.levels:
        assert level.extras is not None
        place = model.outputs.index(level.extras)
        steps = outputs[place].astype(np.float64) - model.output_types[place].zero_point
        numbers.append((steps * model.steps(level.extras)).reshape(-1, 32))
    coefficients = np.concatenate(numbers)
    place = model.outputs.index(task.extras.prototypes)  # type: ignore[union-attr]
    every = (prototypes - float(model.output_types[place].zero_point)).astype(np.float32)
    found = {}
    for each in Detector(model).objects(tuple(outputs)):
        off = np.abs(np.clip(boxes, 0, 640) - each.box).max(axis=1) + np.abs(scores.max(axis=1) - each.score)
        found[each] = every @ coefficients[int(off.argmin())].astype(np.float32)
    return found


def test_two_families_of_faces_find_the_same(shared_data: Path, tmp_path: Path) -> None:
    """YuNet (BGR, a letterbox) and UltraFace (RGB, stretched) were trained by others on other pictures."""
    models = [imported(shared_data, tmp_path, name, TaskSettings()) for name in ("yunet_n_320", "RFB-320_simplified")]
    same = 0
    for picture in pictures(shared_data, FACES):
        both = []
        for model, sure in zip(models, (0.77, 0.6), strict=True):  # YuNet's score is the root of a product
            assert isinstance(model, FloatModel)
            strong = [each for each in objects_of(model, picture)[0] if each.score > sure]
            both.append([in_picture(each.box, model, picture) for each in strong])
        for box in both[0]:
            assert max((iou(box, other) for other in both[1]), default=0) > 0.5
            same += 1
    assert same >= 4
