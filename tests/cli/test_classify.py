"""Image files of every kind, valid and invalid."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from edgemeta.daemon.capture.sources.image import read_image
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.preprocess import preprocess
from edgemeta.model.zoo import find
from edgemeta.tasks.classification import logits_of, top_k

SHIPPED = "resnet8-cifar10"


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    path = tmp_path / "photo.png"
    cv2.imwrite(str(path), cv2.resize(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8), (640, 480)))
    return path


def test_scores_are_the_reference_interpreters(edgemeta_json, photo: Path) -> None:
    model = load(find(SHIPPED))
    batch = preprocess(read_image(photo), model.input, model.preprocessing)[None]
    expected = top_k(model, logits_of(reference.run(model, batch))[0], 3)
    (result,) = edgemeta_json("classify", SHIPPED, photo)["results"]
    assert [(entry["label"], entry["score"]) for entry in result["top"]] == [
        (label, round(score, 4)) for label, score in expected
    ]


def test_several_images_each_get_a_line(edgemeta, photo: Path) -> None:
    lines = edgemeta("classify", SHIPPED, photo, photo, "--top", 1).stdout.splitlines()
    assert len(lines) == 2
    assert lines[0] == lines[1]


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "I;16"])
def test_grey_palette_and_transparent_images_are_read(edgemeta_json, tmp_path: Path, mode: str) -> None:
    pixels = Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 50, 3), dtype=np.uint8))
    path = tmp_path / "picture.png"
    (pixels.convert("I").convert("I;16") if mode == "I;16" else pixels.convert(mode)).save(path)
    assert len(edgemeta_json("classify", SHIPPED, path)["results"][0]["top"]) == 3


def test_one_pixel_is_enough(edgemeta_json, tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), "red").save(tmp_path / "dot.png")
    assert edgemeta_json("classify", SHIPPED, tmp_path / "dot.png")["results"][0]["top"]


def test_a_truncated_jpeg_is_refused(edgemeta, one_sentence, photo: Path, tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.jpg", tmp_path / "cut.jpg"
    cv2.imwrite(str(whole), read_image(photo))
    cut.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    one_sentence(edgemeta("classify", SHIPPED, cut), "cut.jpg")


def test_invalid_images_are_refused(edgemeta, one_sentence, photo: Path, tmp_path: Path) -> None:
    (tmp_path / "text.jpg").write_text("not a picture")
    one_sentence(edgemeta("classify", SHIPPED, photo, tmp_path / "text.jpg"), "text.jpg")
    one_sentence(edgemeta("classify", SHIPPED, tmp_path / "none.jpg"), "none.jpg")
