"""The same boxes are read from every form in which people have them; a damaged file is refused in one sentence."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.toolchain.data.boxed_images import BoxedImages, save_boxed_images
from edgemeta.toolchain.data.boxes.opened import open_boxed_pictures, open_without_boxes
from edgemeta.toolchain.data.boxes.pictures import BoxedPictures
from edgemeta.toolchain.errors import DataError

LABELS = ("cat", "dog", "hen")
Picture = tuple[int, int, list[tuple[str, tuple[int, int, int, int]]]]
"""Height, width, and labels with boxes in whole pixels."""


@st.composite
def pictures(draw: st.DrawFn) -> list[Picture]:
    """Some pictures, at least one with a box of each label."""
    made: list[Picture] = []
    for number in range(draw(st.integers(1, 3))):
        height, width = draw(st.integers(8, 40)), draw(st.integers(8, 40))
        boxes = []
        for place in range(draw(st.integers(0, 3)) if number else 3):
            x0, y0 = draw(st.integers(0, width - 2)), draw(st.integers(0, height - 2))
            box = (x0, y0, draw(st.integers(x0 + 1, width)), draw(st.integers(y0 + 1, height)))
            boxes.append((LABELS[place] if not number else draw(st.sampled_from(LABELS)), box))
        made.append((height, width, boxes))
    return made


def draw_pictures(folder: Path, some: list[Picture]) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            path.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    for number, (height, width, _) in enumerate(some):
        cv2.imwrite(str(folder / f"p{number}.png"), np.full((height, width, 3), number, np.uint8))


def write_yolo(folder: Path, some: list[Picture]) -> Path:
    draw_pictures(folder / "train" / "images", some)
    (folder / "train" / "labels").mkdir(exist_ok=True)
    (folder / "data.yaml").write_text(f"train: train/images\nnc: 3\nnames: {list(LABELS)}\n", "utf-8")
    for number, (height, width, boxes) in enumerate(some):
        lines = [
            f"{LABELS.index(label)} {(x0 + x1) / 2 / width} {(y0 + y1) / 2 / height} {(x1 - x0) / width} "
            f"{(y1 - y0) / height}\n"
            for label, (x0, y0, x1, y1) in boxes
        ]
        (folder / "train" / "labels" / f"p{number}.txt").write_text("".join(lines), "utf-8")
    return folder / "train"


def write_coco(folder: Path, some: list[Picture]) -> Path:
    draw_pictures(folder / "images", some)
    boxes = [(number, *each) for number, (_, _, mine) in enumerate(some) for each in mine]
    content = {
        "images": [
            {"id": 10 + n, "file_name": f"p{n}.png", "height": h, "width": w} for n, (h, w, _) in enumerate(some)
        ],
        "categories": [{"id": 0, "name": "animals", "supercategory": "none"}]
        + [{"id": 3 + place, "name": label, "supercategory": "animals"} for place, label in enumerate(LABELS)],
        "annotations": [
            {
                "id": place,
                "image_id": 10 + n,
                "category_id": 3 + LABELS.index(label),
                "bbox": [x0, y0, x1 - x0, y1 - y0],
                "iscrowd": 0,
            }
            for place, (n, label, (x0, y0, x1, y1)) in enumerate(boxes)
        ],
    }
    (folder / "annotations").mkdir(exist_ok=True)
    (folder / "annotations" / "instances.json").write_text(json.dumps(content), "utf-8")
    return folder


def write_voc(folder: Path, some: list[Picture]) -> Path:
    draw_pictures(folder / "JPEGImages", some)
    (folder / "Annotations").mkdir(exist_ok=True)
    for number, (_, _, boxes) in enumerate(some):
        objects = "".join(
            f"<object><name>{label}</name><difficult>0</difficult><bndbox><xmin>{x0 + 1}</xmin><ymin>{y0 + 1}</ymin>"
            f"<xmax>{x1}</xmax><ymax>{y1}</ymax></bndbox></object>"
            for label, (x0, y0, x1, y1) in boxes
        )
        text = f"<annotation><filename>p{number}.png</filename>{objects}</annotation>"
        (folder / "Annotations" / f"p{number}.xml").write_text(text, "utf-8")
    return folder


def write_cvat(folder: Path, some: list[Picture]) -> Path:
    draw_pictures(folder / "images", some)
    labels = "".join(f"<label><name>{label}</name></label>" for label in LABELS)
    images = ""
    for number, (height, width, boxes) in enumerate(some):
        inner = ""
        for place, (label, (x0, y0, x1, y1)) in enumerate(boxes):
            if place:
                points = f"{x0},{y0};{x1},{y0};{x1},{y1};{x0},{y1}"
                inner += f'<polygon label="{label}" points="{points}"/>'
            else:
                inner += f'<box label="{label}" xtl="{x0}" ytl="{y0}" xbr="{x1}" ybr="{y1}" occluded="0"/>'
        images += f'<image id="{number}" name="p{number}.png" width="{width}" height="{height}">{inner}</image>'
    meta = f"<meta><job><labels>{labels}</labels></job></meta>"
    (folder / "annotations.xml").write_text(f"<annotations><version>1.1</version>{meta}{images}</annotations>", "utf-8")
    return folder


FORMS: dict[str, Callable[[Path, list[Picture]], Path]] = {
    "yolo": write_yolo,
    "coco": write_coco,
    "voc": write_voc,
    "cvat": write_cvat,
}


def as_written(read: BoxedPictures, some: list[Picture]) -> bool:
    """Whether the boxes, in pixels, and the pictures are those that were written."""
    for number, (picture, (height, width, boxes)) in enumerate(zip(read.pictures, some, strict=True)):
        pixels = picture.read()
        assert pixels.shape == (height, width, 3)
        assert (pixels == number).all()
        factor = np.array([width, height] * 2) if picture.relative else 1
        assert [read.labels[place] for place in picture.classes] == [label for label, _ in boxes]
        assert np.allclose(picture.boxes * factor, np.array([box for _, box in boxes]).reshape(-1, 4), atol=1e-4)
    return True


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=15)
@given(some=pictures())
def test_boxes_are_read_as_they_were_written(
    form: str, tmp_path_factory: pytest.TempPathFactory, some: list[Picture]
) -> None:
    folder = tmp_path_factory.mktemp(form)
    read = open_boxed_pictures(FORMS[form](folder, some))
    assert read.labels == LABELS
    assert as_written(read, some)


@pytest.fixture
def two() -> list[Picture]:
    return [(20, 30, [("cat", (1, 2, 10, 12)), ("dog", (5, 5, 20, 20)), ("hen", (0, 0, 4, 4))]), (16, 16, [])]


def test_files_can_be_named_instead_of_their_folder(tmp_path: Path, two: list[Picture]) -> None:
    write_yolo(tmp_path / "yolo", two)
    write_cvat(tmp_path / "cvat", two)
    assert as_written(open_boxed_pictures(tmp_path / "yolo" / "data.yaml"), two)
    assert as_written(open_boxed_pictures(tmp_path / "cvat" / "annotations.xml"), two)


def test_crowds_and_difficult_objects_are_difficult(tmp_path: Path, two: list[Picture]) -> None:
    coco, voc = write_coco(tmp_path / "coco", two), write_voc(tmp_path / "voc", two)
    for path, old, new in (
        (coco / "annotations" / "instances.json", '"iscrowd": 0', '"iscrowd": 1'),
        (voc / "Annotations" / "p0.xml", "<difficult>0", "<difficult>1"),
    ):
        path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")
    for folder in (coco, voc):
        assert open_boxed_pictures(folder).pictures[0].difficult.tolist() == [True, False, False]


def test_outlines_of_yolo_are_read_as_boxes(tmp_path: Path, two: list[Picture]) -> None:
    folder = write_yolo(tmp_path, two)
    (folder / "labels" / "p1.txt").write_text("2 0.25 0.5 0.75 0.5 0.5 1\n", "utf-8")
    assert open_boxed_pictures(folder).pictures[1].boxes.tolist() == [[0.25, 0.5, 0.75, 1.0]]


def test_an_archive_of_squares_is_read(tmp_path: Path) -> None:
    x = np.arange(2 * 8 * 8 * 3, dtype=np.uint8).reshape(2, 8, 8, 3)
    boxes = np.array([[0, 0, 4, 4], [1, 1, 5, 5]], np.float32)
    save_boxed_images(BoxedImages(x, boxes, np.array([1, 0]), np.array([0, 1]), ("a", "b")), tmp_path / "squares.npz")
    read = open_boxed_pictures(tmp_path / "squares.npz")
    assert (read.pictures[1].read() == x[1]).all()
    assert read.pictures[1].boxes.tolist() == [[1, 1, 5, 5]]


def changed(path: Path, old: str, new: str) -> None:
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), "utf-8")


@pytest.mark.parametrize(
    ("form", "file", "old", "new", "message"),
    [
        ("yolo", "train/labels/p0.txt", "0 0.1", "7 0.1", "line 1 is of class 7, expected 0..2"),
        ("yolo", "train/labels/p0.txt", "0 0.1", "x 0.1", "p0.txt: line 1 is 'x', expected a number"),
        ("yolo", "train/labels/p0.txt", "0 0.1", "0 9 0.1", "has 6 numbers, expected class x y width height"),
        ("yolo", "train/labels/p0.txt", "0 0.1", "0 9.1", "expected fractions 0..1 of the picture"),
        ("yolo", "data.yaml", "names", "nothing", "has no annotations, expected an archive, or a folder with boxes"),
        ("yolo", "data.yaml", "names: [", "names: [[", "data.yaml: is no YAML"),
        ("yolo", "data.yaml", "'cat', 'dog'", "'cat', 'cat'", "expected a list of different names"),
        ("coco", "annotations/instances.json", "p0.png", "q.png", "names the picture 'q.png', which is not in"),
        ("coco", "annotations/instances.json", "p0.png", "../../p.png", "names the picture '../../p.png'"),
        ("coco", "annotations/instances.json", '"bbox": [1, ', '"bbox": ["a", ', "is 'a', expected a number"),
        ("coco", "annotations/instances.json", '"bbox": [1, ', '"bbox": [', "expected x, y, width, height"),
        ("coco", "annotations/instances.json", '"image_id": 10', '"image_id": 99', "is of image 99 and category 3"),
        (
            "coco",
            "annotations/instances.json",
            '"category_id": 3',
            '"category_id": [3]',
            "has category_id .3., expected a",
        ),
        ("coco", "annotations/instances.json", '"images"', '"pictures"', "has no annotations, expected"),
        ("coco", "annotations/instances.json", "]", "", "instances.json: is no JSON"),
        ("voc", "Annotations/p0.xml", "<xmin>2</xmin>", "", "xmin is 'None', expected a number"),
        ("voc", "Annotations/p0.xml", "<xmin>2<", "<xmin>99<", r"p0.xml, p0.png: box 0 is \[98.0"),
        ("voc", "Annotations/p0.xml", "</annotation>", "", "p0.xml: is no XML"),
        ("voc", "Annotations/p0.xml", "<annotation>", "<!DOCTYPE a [<!ENTITY b 'c'>]><annotation>", "defines entities"),
        ("cvat", "annotations.xml", 'label="cat"', 'label="cow"', "is of 'cow', expected cat, dog, hen"),
        ("cvat", "annotations.xml", "0,0;", "0;", "expected x,y;x,y;.."),
        (
            "cvat",
            "annotations.xml",
            "<image",
            "<track/><image",
            'is CVAT for video, expected an export "CVAT for images"',
        ),
    ],
)
def test_a_damaged_file_is_refused(
    tmp_path: Path, two: list[Picture], form: str, file: str, old: str, new: str, message: str
) -> None:
    folder = FORMS[form](tmp_path / "data", two)
    changed(tmp_path / "data" / file, old, new)
    with pytest.raises(DataError, match=message.replace("(", r"\(")):
        open_boxed_pictures(folder)


def test_what_is_no_data_set_is_refused(tmp_path: Path, two: list[Picture]) -> None:
    with pytest.raises(DataError, match="nothing: is not there, expected an archive, or a folder"):
        open_boxed_pictures(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty: has no annotations"):
        open_boxed_pictures(tmp_path / "empty")
    (tmp_path / "other.txt").write_text("x", "utf-8")
    with pytest.raises(DataError, match="other.txt: has no known form".replace(".", r"\.")):
        open_boxed_pictures(tmp_path / "other.txt")
    folder = write_coco(tmp_path / "coco", two)
    (folder / "second.json").write_bytes((folder / "annotations" / "instances.json").read_bytes())
    with pytest.raises(DataError, match=r"has the annotations instances.json and second.json, expected one"):
        open_boxed_pictures(folder)


def test_a_picture_of_the_same_name_in_two_places_needs_its_path(tmp_path: Path, two: list[Picture]) -> None:
    folder = write_coco(tmp_path, two)
    (folder / "other").mkdir()
    (folder / "other" / "p0.png").write_bytes((folder / "images" / "p0.png").read_bytes())
    with pytest.raises(DataError, match=r"names the picture 'p0\.png', which is 2 times in"):
        open_boxed_pictures(folder)
    changed(folder / "annotations" / "instances.json", "p0.png", "images/p0.png")
    assert as_written(open_boxed_pictures(folder), two)


@pytest.mark.parametrize("empty", [False, True])
def test_pictures_without_boxes_know_no_label_or_show_none(tmp_path: Path, two: list[Picture], empty: bool) -> None:
    draw_pictures(tmp_path / "yard", two)
    read = open_without_boxes(tmp_path / "yard", LABELS, empty=empty)
    assert [each.source for each in read.pictures] == ["yard", "yard"]
    assert all((each.known == empty).all() for each in read.pictures)
    assert not any(len(each.boxes) for each in read.pictures)


def test_labels_of_another_part_are_numbered_like_the_first(tmp_path: Path, two: list[Picture]) -> None:
    read: Any = open_boxed_pictures(write_voc(tmp_path, two)).numbered_by(("fox", "hen", "dog", "cat"), tmp_path)
    assert [read.labels[place] for place in read.pictures[0].classes] == ["cat", "dog", "hen"]
    assert read.pictures[0].known.all(), "a VOC data set names only the labels that occur"
    other = open_boxed_pictures(write_cvat(tmp_path / "cvat", two)).numbered_by((*LABELS, "fox"), tmp_path)
    assert other.pictures[0].known.tolist() == [True, True, True, False]
