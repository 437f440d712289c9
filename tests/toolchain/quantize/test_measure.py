"""The figures that a quantization states of detections."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from edgemeta.model.file import load
from edgemeta.model.float_file import save_float_model
from edgemeta.toolchain.data.boxed_images import load_boxed_images, save_boxed_images
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.evaluate.detection import evaluate_float_detector
from edgemeta.toolchain.quantize.auto import AutoScheme
from edgemeta.toolchain.quantize.binary import BinaryBoxesMeasured, BinaryScheme
from edgemeta.toolchain.quantize.calibration import Calibration
from edgemeta.toolchain.quantize.measure import Agreed, BoxesMeasured
from edgemeta.toolchain.quantize.quantize import LabelledFiles, quantize
from rig.small_detection import cell_network, cell_pictures
from rig.small_search import write_small_search


@pytest.fixture
def files(tmp_path: Path) -> Path:
    save_float_model(cell_network(), tmp_path / "float.safetensors")
    save_boxed_images(cell_pictures(30, 1), tmp_path / "train.npz")
    save_boxed_images(cell_pictures(25, 2), tmp_path / "test.npz")
    return tmp_path


@pytest.mark.parametrize("scheme", ["auto", "binary"])
def test_precision_before_and_after(files: Path, scheme: str) -> None:
    test = files / "test.npz"
    calibration = Calibration(files / "train.npz", 20)
    out = files / "out.safetensors"
    chosen = AutoScheme(calibration) if scheme == "auto" else BinaryScheme(calibration)
    result = quantize(files / "float.safetensors", out, chosen, labelled=LabelledFiles(test=test))
    boxes = result.test
    assert isinstance(boxes, BoxesMeasured)
    assert (result.made.images, boxes.images) == (20, 25)
    images = load_boxed_images(test)
    assert boxes.floating == evaluate_float_detector(cell_network(), images, lambda _done, _total: None)
    assert boxes.integer.mean == pytest.approx(boxes.floating.mean, abs=0.1)
    assert isinstance(boxes, BinaryBoxesMeasured) == (scheme == "binary")
    if isinstance(boxes, BinaryBoxesMeasured):
        assert boxes.real.mean == pytest.approx(boxes.integer.mean, abs=0.05)
    provenance = load(out).provenance
    assert provenance["test_map"] == boxes.integer.mean
    assert provenance["test_sha256"] == images.sha256()


def test_test_images_must_fit_the_task(files: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    classes, out = tmp_path_factory.mktemp("classes"), files / "out.safetensors"
    write_small_search(classes)
    calibration = Calibration(files / "train.npz")
    for network, test, message in (
        (classes, files / "test.npz", "images with boxes are for a detection, found a classification"),
        (files, classes / "data.npz", "labelled images are for a classification, found a detection"),
    ):
        with pytest.raises(QuantizeError, match=message):
            quantize(network / "float.safetensors", out, BinaryScheme(calibration), labelled=LabelledFiles(test=test))
    assert not out.exists()


def test_pictures_without_labels_measure_agreement(files: Path) -> None:
    """The same network as integers: its objects at all scores, and its outputs."""
    folder, out = files / "plain" / "camera", files / "out.safetensors"
    folder.mkdir(parents=True)
    for number, frame in cell_pictures(12, 3).frames():
        cv2.imwrite(str(folder / f"{number:02}.png"), frame)
    scheme = AutoScheme(Calibration(files / "train.npz", 20), ("minmax",))
    result = quantize(files / "float.safetensors", out, scheme, labelled=LabelledFiles(test=folder.parent))
    assert isinstance(result.test, Agreed)
    assert result.test.images == 12
    same = result.test.agreement.same_objects
    assert same is not None
    assert 0.9 < same <= 1
    assert 0 < result.test.agreement.error < 0.01
    provenance = load(out).provenance
    assert (provenance["test_images"], provenance["test_same_objects"]) == (12, round(same, 4))


def test_the_first_two_hundred_images_calibrate_unless_stated(tmp_path: Path) -> None:
    pictures = cell_pictures(210, 1)
    save_boxed_images(pictures, tmp_path / "train.npz")
    frames = list(Calibration(tmp_path / "train.npz").frames(print))
    assert len(frames) == 200
    np.testing.assert_array_equal(frames[199], pictures.x[199][..., ::-1])
    assert len(Calibration(tmp_path / "train.npz", 205).frames(print)) == 205
