"""`predict` on image files of every kind, valid and invalid, for models of every task."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from edgemeta.cli.predict import classify, predict
from edgemeta.daemon.capture.sources.image import read_image
from edgemeta.model import reference
from edgemeta.model.file import load, save
from edgemeta.model.graph import Model
from edgemeta.model.preprocess import placement, preprocess
from edgemeta.model.tasks import Classification, Embedding, Keypoints, MultiLabel, Raw, Rejection, Segmentation
from edgemeta.model.zoo import find
from edgemeta.tasks.keypoints import points_in_frame
from edgemeta.tasks.results import reader
from edgemeta.tasks.tiles import in_frame
from tests.tasks.detection.models import detection_model
from tests.tasks.models import colour_map_model, vector_model

SHIPPED = "resnet8-cifar10"
LABELS = tuple(f"label {i}" for i in range(6))


@pytest.fixture(scope="module")
def photo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("photo") / "photo.png"
    cv2.imwrite(str(path), cv2.resize(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8), (640, 480)))
    return path


@pytest.fixture
def lines_of() -> Callable[..., Any]:
    """The objects that `predict --json` prints for images that are all well."""

    def run(*arguments: object) -> list[dict[str, Any]]:
        result = CliRunner().invoke(predict, [*map(str, arguments), "--json"])
        assert result.exit_code == 0, result.output
        return [json.loads(line) for line in result.stdout.splitlines()]

    return run


def stored(model: Model, folder: Path) -> Path:
    path = folder / "model.safetensors"
    save(model, path)
    return path


def expected_of(model: Model, image: Path, top: int = 5) -> Any:
    """The result by the reference, boxes in pixels of the image."""
    pixels = read_image(image)
    outputs = reference.run(model, preprocess(pixels, model.input, model.preprocessing)[None])
    result = reader(model, top)([output[0] for output in outputs])
    return replace(result, objects=in_frame(result.objects, placement(model.preprocessing, model.input, pixels.shape)))


def as_labels(labels: Any) -> list[dict[str, Any]]:
    return [{"label": label, "score": round(score, 6)} for label, score in labels]


def test_one_object_for_each_image_and_line(edgemeta, photo: Path) -> None:
    result = edgemeta("predict", SHIPPED, photo, photo, "--json", "--no-reject")
    assert (result.returncode, result.stderr) == (0, "")
    model = load(find(SHIPPED))
    model = replace(model, task=replace(model.task, rejection=None))
    entry = {"image": str(photo), "labels": as_labels(expected_of(model, photo, 3).labels), "unknown": False}
    assert [json.loads(line) for line in result.stdout.splitlines()] == [entry, entry]


def test_an_image_that_the_rule_rejects_is_unknown(lines_of, edgemeta, photo: Path, tmp_path: Path) -> None:
    model = load(find(SHIPPED))
    path = stored(replace(model, task=replace(model.task, rejection=Rejection(2**31, model.outputs[1:]))), tmp_path)
    assert lines_of(path, photo) == [{"image": str(photo), "labels": [], "unknown": True}]
    assert len(lines_of(path, photo, "--no-reject")[0]["labels"]) == 3
    assert edgemeta("predict", path, photo).stdout.splitlines()[1].endswith("unknown")


def test_classify_is_its_other_name(photo: Path) -> None:
    one, other = (CliRunner().invoke(verb, [SHIPPED, str(photo), "--json"]).stdout for verb in (predict, classify))
    assert one == other
    assert "edgemeta classify" in CliRunner().invoke(classify, ["--help"]).output


def test_top_and_threshold_of_a_classification(lines_of, photo: Path) -> None:
    (entry,) = lines_of(SHIPPED, photo, "--no-reject", "--top", 10)
    assert len(entry["labels"]) == 10
    (best,) = lines_of(SHIPPED, photo, "--no-reject", "--top", 1)
    assert best["labels"] == entry["labels"][:1]
    second = entry["labels"][1]["score"]
    (likely,) = lines_of(SHIPPED, photo, "--no-reject", "--threshold", second - 1e-5)
    assert likely["labels"] == entry["labels"][:2]


@pytest.mark.parametrize("crop", ["full", "center", "letterbox"])
def test_objects_have_boxes_in_pixels_of_the_image(lines_of, photo: Path, tmp_path: Path, crop: str) -> None:
    made = detection_model("yolox", score_threshold=0.3)
    model = replace(made, preprocessing=replace(made.preprocessing, crop=crop))  # type: ignore[arg-type]
    (entry,) = lines_of(stored(model, tmp_path), photo)
    objects = expected_of(model, photo).objects
    assert objects
    assert entry == {
        "image": str(photo),
        "objects": [
            {"label": each.label, "score": round(each.score, 6), "box": [round(side, 2) for side in each.box]}
            for each in objects
        ],
    }
    for x0, y0, x1, y1 in (each["box"] for each in entry["objects"]):
        assert 0 <= x0 < x1 <= 640
        assert 0 <= y0 < y1 <= 480


def test_top_and_threshold_of_a_detection(lines_of, photo: Path, tmp_path: Path) -> None:
    path = stored(detection_model("yolox", score_threshold=0.3), tmp_path)
    every = lines_of(path, photo)[0]["objects"]
    assert len(every) > 3
    assert lines_of(path, photo, "--top", 2)[0]["objects"] == every[:2]
    better = expected_of(detection_model("yolox", score_threshold=0.6), photo).objects
    assert [each["score"] for each in lines_of(path, photo, "--threshold", 0.6)[0]["objects"]] == [
        round(each.score, 6) for each in better
    ]
    assert lines_of(path, photo, "--threshold", 0.999)[0]["objects"] == []


def test_several_labels(lines_of, photo: Path, tmp_path: Path) -> None:
    model = vector_model(MultiLabel(LABELS), 6, scale=0.02)
    (entry,) = lines_of(stored(model, tmp_path), photo)
    assert entry["labels"] == as_labels(expected_of(model, photo).labels)
    (every,) = lines_of(stored(model, tmp_path), photo, "--threshold", 0.001)
    assert len(every["labels"]) == 6
    assert every["labels"][: len(entry["labels"])] == entry["labels"]


def test_an_embedding(lines_of, photo: Path, tmp_path: Path) -> None:
    model = vector_model(Embedding(), 6)
    path = stored(model, tmp_path)
    (entry,) = lines_of(path, photo)
    assert entry["embedding"] == [round(number, 6) for number in expected_of(model, photo).embedding]
    result = CliRunner().invoke(predict, [str(path), str(photo), "--top", "2"])
    assert result.exit_code == 2
    assert "makes an embedding" in result.output


def test_a_segmentation(lines_of, photo: Path, tmp_path: Path) -> None:
    model = colour_map_model(Segmentation(("red", "green", "blue")), 32, crop="letterbox")
    (entry,) = lines_of(stored(model, tmp_path), photo)
    integers = reference.run(model, preprocess(read_image(photo), model.input, model.preprocessing)[None])[0][0]
    counts = np.bincount(integers[4:28].argmax(axis=2).ravel(), minlength=3) / (24 * 32)
    expected = sorted(zip(("red", "green", "blue"), counts.tolist(), strict=True), key=lambda each: -each[1])
    assert entry["labels"] == as_labels(expected)


def test_keypoints(lines_of, photo: Path, tmp_path: Path) -> None:
    model = vector_model(Keypoints(("left", "right"), "xys"), 6)
    (entry,) = lines_of(stored(model, tmp_path), photo)
    place = placement(model.preprocessing, model.input, read_image(photo).shape)
    points = points_in_frame(expected_of(model, photo).points, place)
    assert [each["name"] for each in entry["keypoints"]] == ["left", "right"]
    assert [each["point"] for each in entry["keypoints"]] == [[round(each.x, 2), round(each.y, 2)] for each in points]
    assert all(0 <= each["score"] <= 1 for each in entry["keypoints"])


@pytest.mark.parametrize("decoding", ["yolov8 with points", "yolox with masks"])
def test_what_objects_have_beside_boxes(lines_of, photo: Path, tmp_path: Path, decoding: str) -> None:
    model = detection_model(decoding, score_threshold=0.01)
    path = stored(model, tmp_path)
    (entry,) = lines_of(path, photo)
    expected = expected_of(model, photo).objects
    assert expected
    for each, found in zip(expected, entry["objects"], strict=True):
        assert [round(side, 2) for side in each.box] == found["box"]
        if "points" in decoding:
            assert [[point["name"], *point["point"]] for point in found["keypoints"]] == [
                [name, round(x, 2), round(y, 2)] for name, x, y, _ in each.keypoints
            ]
            assert all(0 <= point["score"] <= 1 for point in found["keypoints"])
        else:
            assert found["outline"] == [[round(x, 2), round(y, 2)] for x, y in each.outline]
    lines = CliRunner().invoke(predict, [str(path), str(photo)]).output.splitlines()
    named = [line for line in lines if "· nose" in line or "· tail" in line]
    assert len(named) == sum(len(each.keypoints) for each in expected)
    assert max(map(len, lines)) <= 80


def test_raw_outputs(lines_of, photo: Path, tmp_path: Path) -> None:
    model = vector_model(Raw(("angles",)), 6)
    path = stored(model, tmp_path)
    (entry,) = lines_of(path, photo)
    (angles,) = expected_of(model, photo).numbers
    assert entry["outputs"] == {"angles": {"shape": [1, 1, 6], "values": list(angles.values)}}
    result = CliRunner().invoke(predict, [str(path), str(photo), "--top", "2"])
    assert (result.exit_code, "gives raw outputs" in result.output) == (2, True)


@pytest.mark.parametrize("mode", ["1", "L", "P", "RGBA", "I;16"])
def test_grey_palette_transparent_and_16_bit_images_are_read(lines_of, tmp_path: Path, mode: str) -> None:
    pixels = Image.fromarray(np.random.default_rng(1).integers(0, 256, (40, 50, 3), dtype=np.uint8))
    path = tmp_path / "picture.png"
    (pixels.convert("I").convert("I;16") if mode == "I;16" else pixels.convert(mode)).save(path)
    assert len(lines_of(SHIPPED, path, "--no-reject")[0]["labels"]) == 3


def test_one_pixel_is_enough(lines_of, tmp_path: Path) -> None:
    Image.new("RGB", (1, 1), "red").save(tmp_path / "dot.png")
    assert lines_of(SHIPPED, tmp_path / "dot.png", "--no-reject")[0]["labels"]
    path = stored(detection_model("yolox", score_threshold=0.3), tmp_path)
    assert all(0 <= side <= 1 for each in lines_of(path, tmp_path / "dot.png")[0]["objects"] for side in each["box"])


def test_a_folder_gives_its_images_and_those_of_sub_folders_by_path(lines_of, photo: Path, tmp_path: Path) -> None:
    for name in ("b.PNG", "a.png", "sub/deep/c.png", "notes.txt", "sub/0.png"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(photo, tmp_path / name)
    found = [entry["image"] for entry in lines_of(SHIPPED, photo, tmp_path)]
    names = ("a.png", "b.PNG", "sub/0.png", "sub/deep/c.png")
    assert found == [str(photo), *(str(tmp_path / name) for name in names)]


def test_without_an_answer_there_is_no_head_of_a_table(edgemeta, photo: Path, tmp_path: Path) -> None:
    missing = tmp_path / "none.jpg"
    result = edgemeta("predict", SHIPPED, missing)
    assert (result.returncode, result.stdout) == (1, "")
    result = edgemeta("predict", SHIPPED, missing, photo)
    assert (result.returncode, result.stdout.split()[:3]) == (1, ["image", "label", "score"])


def test_each_damaged_image_gets_a_sentence_and_the_others_their_answers(edgemeta, photo: Path, tmp_path: Path) -> None:
    cv2.imwrite(str(tmp_path / "whole.jpg"), read_image(photo))
    jpeg, png = (tmp_path / "whole.jpg").read_bytes(), photo.read_bytes()
    (tmp_path / "cut.jpg").write_bytes(jpeg[: len(jpeg) // 2])
    (tmp_path / "short.jpg").write_bytes(jpeg[: len(jpeg) // 2] + b"\xff\xd9")
    (tmp_path / "cut.png").write_bytes(png[: len(png) // 2])
    (tmp_path / "text.jpg").write_text("not a picture")
    (tmp_path / "zero.png").touch()
    (tmp_path / "empty").mkdir()
    missing, empty = tmp_path / "none.jpg", tmp_path / "empty"
    result = edgemeta("predict", SHIPPED, empty, missing, tmp_path, photo, "--json")
    assert result.returncode == 1
    assert [json.loads(line)["image"] for line in result.stdout.splitlines()] == [
        str(tmp_path / "whole.jpg"),
        str(photo),
    ]
    assert result.stderr.splitlines() == [
        f"edgemeta: folder {empty} has no images (.bmp, .jpeg, .jpg, .pgm, .png, .ppm, .tif, .tiff, .webp)",
        f"edgemeta: image {missing} cannot be read: No such file or directory",
        f"edgemeta: image {tmp_path / 'cut.jpg'} is a JPEG truncated after {len(jpeg) // 2} bytes",
        f"edgemeta: image {tmp_path / 'cut.png'} is a PNG truncated or damaged: "
        f"{len(png) // 2} bytes, less than its parts claim",
        f"edgemeta: image {tmp_path / 'short.jpg'} is damaged: Corrupt JPEG data: premature end of data segment",
        f"edgemeta: image {tmp_path / 'text.jpg'} cannot be decoded, expected JPEG, PNG or the like",
        f"edgemeta: image {tmp_path / 'zero.png'} is empty",
    ]


def test_what_a_decoder_minds_names_the_image(edgemeta, photo: Path, tmp_path: Path) -> None:
    """Bytes before the end marker: every pixel is there."""
    cv2.imwrite(str(tmp_path / "a.jpg"), read_image(photo))
    jpeg = (tmp_path / "a.jpg").read_bytes()
    (tmp_path / "a.jpg").write_bytes(jpeg[:-2] + bytes(9) + jpeg[-2:])
    result = edgemeta("predict", SHIPPED, tmp_path / "a.jpg", "--json")
    assert result.returncode == 0
    assert result.stderr.startswith(f"edgemeta: image {tmp_path / 'a.jpg'}: Corrupt JPEG data: ")
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize(("count", "shown"), [(10, True), (9, False)])
def test_a_bar_shows_progress_over_many_images(photo: Path, tmp_path: Path, count: int, shown: bool) -> None:
    """On a terminal, where standard output goes elsewhere."""
    terminal, end = os.openpty()
    command = [str(Path(sys.executable).with_name("edgemeta")), "predict", SHIPPED, *[str(photo)] * count, "--json"]
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=end, text=True, timeout=120)
        os.write(end, b"end")
        written = os.read(terminal, 100_000).decode()
    finally:
        os.close(terminal)
        os.close(end)
    assert len(done.stdout.splitlines()) == count
    assert ("100%" in written) == shown
    assert shown or written == "end"


def test_a_name_that_is_not_text(lines_of, photo: Path, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9\n.png"
    shutil.copyfile(photo, path)
    assert lines_of(SHIPPED, tmp_path)[0]["image"] == os.fsdecode(path)
    lines = CliRunner().invoke(predict, [SHIPPED, str(tmp_path), "--top", "1"]).stdout.splitlines()
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("model", "heads"),
    [
        (detection_model("yolox", score_threshold=0.3), "label score x0 y0 x1 y1"),
        (detection_model("yolox", score_threshold=0.999), "label score x0 y0 x1 y1"),
        (vector_model(Classification(tuple(f"{'long ' * 20}{i}" for i in range(6))), 6), "label score"),
        (vector_model(Embedding(), 300), "embedding"),
        (vector_model(Raw(("name " * 12,)), 300), "outputs"),
        (vector_model(Keypoints(tuple(f"{'long ' * 20}{i}" for i in range(3))), 6), "point x y"),
    ],
    ids=["detection", "nothing", "classification", "embedding", "raw", "keypoints"],
)
def test_a_table_fits_80_columns(photo: Path, tmp_path: Path, model: Model, heads: str) -> None:
    deep = tmp_path / "a folder with a long name" / "and another one in it"
    deep.mkdir(parents=True)
    shutil.copyfile(photo, deep / "photo.png")
    result = CliRunner().invoke(predict, [str(stored(model, tmp_path)), str(deep / "photo.png")])
    assert result.exit_code == 0
    first, *rows = result.stdout.splitlines()
    assert first.split() == ["image", *heads.split()]
    assert max(map(len, (first, *rows))) <= 80
    assert rows[0].startswith("…")
    assert "photo.png" in rows[0]
    assert all(row.startswith("  ") for row in rows[1:])
