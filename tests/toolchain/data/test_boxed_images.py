"""Images with boxes survive their file; what is wrong in a file is named."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.toolchain.data.boxed_images import BoxedImages, boxed_part, is_boxed, load_boxed_images, save_boxed_images
from edgemeta.toolchain.errors import DataError

MEMBERS: dict[str, Any] = {
    "x": np.arange(3 * 8 * 12 * 3).reshape(3, 8, 12, 3).astype(np.uint8),
    "boxes": np.array([[0, 0, 12, 8], [1, 2, 3, 4], [5, 5, 6, 7.5]], np.float32),
    "classes": np.array([1, 0, 1]),
    "images": np.array([0, 2, 2]),
    "labels": np.array(["cup", "pen"]),
}


def written(path: Path, **changed: Any) -> Path:
    members = {name: value for name, value in {**MEMBERS, **changed}.items() if value is not None}
    np.savez(path / "data.npz", **members)
    return path / "data.npz"


def test_a_file_holds_everything(tmp_path: Path) -> None:
    data = load_boxed_images(written(tmp_path))
    assert (len(data), data.labels) == (3, ("cup", "pen"))
    save_boxed_images(data, tmp_path / "again.npz")
    again = load_boxed_images(tmp_path / "again.npz")
    assert again.sha256() == data.sha256()
    assert is_boxed(tmp_path / "again.npz")
    assert {path.name for path in tmp_path.iterdir()} == {"data.npz", "again.npz"}


def test_objects_of_an_image_and_parts(tmp_path: Path) -> None:
    data = load_boxed_images(written(tmp_path))
    assert [len(data.objects(image)[0]) for image in range(3)] == [1, 0, 2]
    part = data.take(np.array([1, 2]))
    assert np.array_equal(part.objects(1)[0], data.objects(2)[0])
    assert np.array_equal(part.objects(1)[1], [0, 1])
    assert [number for number, _ in part.frames()] == [0, 1]
    assert np.array_equal(next(iter(part.frames()))[1], data.x[1][..., ::-1])
    assert part.sha256() != data.sha256()
    assert data.take(np.array([2, 0])).images.tolist() == [0, 0, 1]


def test_classes_are_numbered_as_the_networks_labels(tmp_path: Path) -> None:
    path = written(tmp_path)
    data = load_boxed_images(path, ("pen", "key", "cup"))
    assert data.classes.tolist() == [0, 2, 0]
    assert data.labels == ("pen", "key", "cup")
    with pytest.raises(DataError, match="the class 'pen' is no label of the model, expected cup"):
        load_boxed_images(path, ("cup",))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"boxes": None}, "has no boxes, expected x, boxes, classes, images, labels: images with boxes"),
        ({"boxes": np.zeros((3, 5))}, r"boxes is float64 \(3, 5\), expected numbers \[boxes, 4\]"),
        (
            {"boxes": np.array([[0, 0, 12, 8], [3, 2, 3, 4], [5, 5, 6, 7]])},
            r"box 1 is \[3, 2, 3, 4\], expected x0 < x1",
        ),
        ({"boxes": np.full((3, 4), np.nan)}, r"box 0 is \[nan, nan, nan, nan\], expected"),
        ({"boxes": np.array([[0, 0, 12, 9]] * 3)}, "inside of 12x8"),
        ({"classes": np.array([0, 1, 2])}, r"classes run from 0 to 2, expected 0..1"),
        ({"classes": np.array([0, 1])}, r"classes is int64 \(2,\), expected integers \[3\]"),
        ({"images": np.array([0, 2, 1])}, "not in order, expected ascending numbers"),
        ({"images": np.array([0, 2, 3])}, r"images run from 0 to 3, expected 0..2"),
        ({"x": np.zeros((3, 8, 12), np.uint8)}, "x is uint8"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    path = written(tmp_path, **changed)
    with pytest.raises(DataError, match=message) as error:
        load_boxed_images(path)
    assert str(path) in str(error.value)


def test_images_of_another_size(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="images are 12x8 pixels, expected 8x8"):
        load_boxed_images(written(tmp_path), size=8)


def test_a_part_does_not_depend_on_the_order(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    none = np.zeros(0, np.int64)
    pixels = rng.integers(0, 255, (40, 4, 4, 3)).astype(np.uint8)
    data = BoxedImages(pixels, np.zeros((0, 4), np.float32), none, none, ("a",))
    part, order = boxed_part(data, 0.25, 1), rng.permutation(40)
    assert part.sum() == 10
    assert np.array_equal(part[order], boxed_part(data.take(order), 0.25, 1))
    with pytest.raises(DataError, match="there are 1 images, expected at least 2"):
        boxed_part(data.take(order[:1]), 0.25, 1)


def test_other_files_have_no_boxes(tmp_path: Path) -> None:
    np.savez(tmp_path / "plain.npz", x=MEMBERS["x"], y=np.zeros(3))
    (tmp_path / "text").write_text("boxes")
    assert not is_boxed(tmp_path / "plain.npz")
    assert not is_boxed(tmp_path / "text")
    assert not is_boxed(tmp_path / "missing")
    assert not is_boxed(tmp_path)
