"""Data sets: every format is read correctly, and every error is one sentence."""

import pickle
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, Alternates, Dataset, load_alternates, load_dataset
from edgemeta.toolchain.errors import DataError


def binary_records(x: Any, y: Any) -> bytes:
    planes = x.transpose(0, 3, 1, 2).reshape(len(x), -1)
    return np.concatenate([y[:, None], planes], axis=1).astype(np.uint8).tobytes()


def one_sentence(error: pytest.ExceptionInfo[DataError], path: Path) -> str:
    text = str(error.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text


def test_npz_with_pixels(write_npz: Any, pixels: Any, classes: Any) -> None:
    data = load_dataset(write_npz(x=pixels, y=classes.astype(np.int64), labels=list("abcdefghij")))
    assert (data.x == pixels).all()
    assert (data.y == classes).all()
    assert data.y.dtype == np.int64
    assert data.labels == tuple("abcdefghij")


def test_an_archive_without_labels_gets_names_only_from_who_knows_them(
    write_npz: Any, pixels: Any, classes: Any
) -> None:
    """Once, it was taken for CIFAR-10 silently."""
    path = write_npz(x=pixels, y=classes)
    with pytest.raises(DataError, match="does not name its classes, expected `labels`, a string for each") as error:
        load_dataset(path)
    one_sentence(error, path)
    assert load_dataset(path, labels=tuple("klmnopqrst")).labels == tuple("klmnopqrst")
    named = write_npz(x=pixels, y=classes, labels=list("abcdefghij"))
    assert load_dataset(named, labels=tuple("klmnopqrst")).labels == tuple("abcdefghij")


def test_npz_may_have_its_own_labels(write_npz: Any, pixels: Any) -> None:
    data = load_dataset(write_npz(x=pixels, y=np.zeros(20, np.uint8), labels=np.array(["nothing", "person"])))
    assert data.labels == ("nothing", "person")


def test_binary_file(tmp_path: Path, pixels: Any, classes: Any) -> None:
    path = tmp_path / "test_batch.bin"
    path.write_bytes(binary_records(pixels, classes))
    data = load_dataset(path)
    assert (data.x == pixels).all()
    assert (data.y == classes).all()


@pytest.mark.parametrize("pickled", [False, True])
def test_folder_of_official_files(tmp_path: Path, pixels: Any, classes: Any, pickled: bool) -> None:
    for i, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        part = np.roll(pixels, i, axis=0)
        if pickled:
            batch = {b"data": part.transpose(0, 3, 1, 2).reshape(20, -1).copy(), b"labels": classes.tolist()}
            (tmp_path / name).write_bytes(pickle.dumps(batch, protocol=2))
        else:
            (tmp_path / f"{name}.bin").write_bytes(binary_records(part, classes))
    train, test = load_dataset(tmp_path, "train"), load_dataset(tmp_path, "test")
    assert len(train) == 100
    assert (train.x[:20] == pixels).all()
    assert (test.x == np.roll(pixels, 5, axis=0)).all()


def test_folder_without_some_of_the_official_files(tmp_path: Path) -> None:
    (tmp_path / "data_batch_1.bin").write_bytes(bytes(3073))
    with pytest.raises(DataError, match=r"neither test_batch\.bin nor test_batch, expected") as error:
        load_dataset(tmp_path)
    one_sentence(error, tmp_path)


def test_a_folder_of_pictures(class_folder: Path, draw: Any) -> None:
    data = load_dataset(class_folder, size=32)
    assert data.x.shape == (9, 32, 32, 3)
    assert data.y.tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 2]
    assert data.labels == ("bird", "boat", "car")
    assert (data.names or ())[3] == "boat/1.png"
    assert load_dataset(class_folder, size=32).sha256() == data.sha256()
    assert load_dataset(class_folder, size=24).sha256() != data.sha256()


def test_a_folder_of_pictures_needs_a_size(class_folder: Path) -> None:
    with pytest.raises(DataError, match="is a folder of pictures, expected also the size") as error:
        load_dataset(class_folder)
    one_sentence(error, class_folder)


def test_one_picture_in_two_classes_is_reported(class_folder: Path, said: list[str]) -> None:
    (class_folder / "car" / "x.png").write_bytes((class_folder / "bird" / "0.png").read_bytes())
    load_dataset(class_folder, size=8, report=said.append)
    assert said == [
        f"{class_folder}/car/x.png: is the same picture as {class_folder}/bird/0.png, of another class",
    ]


def test_without_a_report_warnings_are_logged(class_folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (class_folder / "car" / "notes.txt").write_text("")
    load_dataset(class_folder, size=8)
    assert caplog.messages == [f"{class_folder}/car: 1 entry (notes.txt) hidden or no picture, left out"]


def test_images_of_another_size_than_wanted(write_npz: Any, pixels: Any, classes: Any) -> None:
    path = write_npz(x=pixels, y=classes)
    assert len(load_dataset(path, size=32, labels=CIFAR10_LABELS)) == 20
    with pytest.raises(DataError, match="images are 32x32 pixels, expected 96x96"):
        load_dataset(path, size=96, labels=CIFAR10_LABELS)


def test_300_labels(write_npz: Any, pixels: Any) -> None:
    names = np.array([f"class {i}" for i in range(300)])
    data = load_dataset(write_npz(x=pixels, y=np.arange(280, 300), labels=names))
    assert data.y.tolist() == list(range(280, 300))


def test_some_images_keep_their_names(class_folder: Path) -> None:
    some = load_dataset(class_folder, size=8).take(np.array([5, 0]))
    assert some.names == ("car/0.png", "bird/0.png")
    assert some.y.tolist() == [2, 0]


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="cannot be read: No such file"):
        load_dataset(tmp_path / "none.npz")


def test_text_file(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(DataError, match="begins with b'hell', expected") as error:
        load_dataset(path)
    one_sentence(error, path)


def test_a_single_array_is_not_an_archive(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.zeros(3))
    with pytest.raises(DataError, match="begins with"):
        load_dataset(path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x": None}, "the archive holds y, expected x and y, or jpeg, offsets and y"),
        ({"x": np.zeros((20, 32, 32, 3), np.float32)}, r"x is float32 \(20, 32, 32, 3\), expected uint8"),
        ({"x": np.zeros((20, 3, 32, 32), np.uint8)}, "expected uint8"),
        ({"x": np.zeros((0, 32, 32, 3), np.uint8)}, "expected uint8"),
        ({"y": np.zeros(19, np.uint8)}, "holds 20 images and 19 labels"),
        ({"y": np.zeros(20)}, "y is float64"),
        ({"y": np.zeros((20, 1), np.uint8)}, "expected integers"),
        ({"y": np.full(20, 10)}, r"labels run from 10 to 10, expected 0\.\.9"),
        ({"y": np.full(20, -1)}, "labels run from -1 to -1"),
        ({"labels": np.zeros(3)}, "labels is float64"),
        ({"y": np.array([{}] * 20)}, "not a complete .npz archive"),
    ],
)
def test_wrong_members(write_npz: Any, pixels: Any, classes: Any, change: dict[str, Any], text: str) -> None:
    members = {"x": pixels, "y": classes, **change}
    path = write_npz(**{k: v for k, v in members.items() if v is not None})
    with pytest.raises(DataError, match=text) as error:
        load_dataset(path, labels=CIFAR10_LABELS)
    one_sentence(error, path)


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_damaged_archives_are_one_error(write_npz: Any, pixels: Any, classes: Any, data: st.DataObject) -> None:
    path = write_npz(x=pixels[:2], y=classes[:2])
    raw = bytearray(path.read_bytes())
    if data.draw(st.booleans()):
        raw = raw[: data.draw(st.integers(0, len(raw) - 1))]
    else:
        # the header and the directory at the end decide; flips in the pixels are caught by the checksum
        where = data.draw(st.one_of(st.integers(0, 200), st.integers(len(raw) - 300, len(raw) - 1)))
        raw[where] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(raw)
    with suppress(DataError):  # and no other error
        assert load_dataset(path, labels=CIFAR10_LABELS).x.dtype == np.uint8


def test_balanced_selects_the_first_images_of_each_class(pixels: Any, classes: Any) -> None:
    data = Dataset(pixels, classes).balanced(10)
    assert (data.y == np.arange(10)).all()
    assert (data.x == pixels[:10]).all()


def test_digest_identifies_the_pixels(pixels: Any, classes: Any) -> None:
    first = Dataset(pixels, classes).sha256()
    other = pixels.copy()
    other[0, 0, 0, 0] ^= 1
    assert len(first) == 64
    assert first != Dataset(other, classes).sha256()


def test_alternates(write_npz: Any, pixels: Any, classes: Any) -> None:
    index = np.array([3, 1], np.uint16)
    path = write_npz(x=pixels[index] ^ 1, y=classes[index], index=index)
    other = load_alternates(path, Dataset(pixels, classes))
    assert other.index.tolist() == [3, 1]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"index": None}, "expected x, y, index"),
        ({"index": np.array([1, 1])}, "expected different numbers"),
        ({"index": np.array([1, 20])}, "expected different numbers in 0..19"),
        ({"index": np.array([1.0, 2.0])}, "expected one integer per image"),
        ({"index": np.array([1, 2, 3])}, "expected one integer per image"),
        ({"index": np.array([3, 2])}, "1 labels differ"),
        ({"x": np.zeros((2, 8, 8, 3), np.uint8)}, "images are"),
    ],
)
def test_wrong_alternates(write_npz: Any, pixels: Any, classes: Any, change: dict[str, Any], text: str) -> None:
    members = {"x": pixels[:2], "y": np.array([3, 1]), "index": np.array([3, 1]), **change}
    path = write_npz(**{k: v for k, v in members.items() if v is not None})
    with pytest.raises(DataError, match=text) as error:
        load_alternates(path, Dataset(pixels, classes))
    one_sentence(error, path)


def test_real_container_decodes_to_the_documented_pixels(shared_data: Path) -> None:
    pytest.importorskip("PIL", reason="Pillow is not installed: pip install edgemeta[train]")
    data = load_dataset(shared_data / "cifar10" / "test.npz", labels=CIFAR10_LABELS)
    assert data.sha256() == "b7018a062865e9348a704e72416eb53c816b43cc8ac42ab43276a2b967508ab6"
    assert np.bincount(data.y).tolist() == [1000] * 10


def test_alternatives_of_a_part_are_numbered_as_its_images() -> None:
    x = np.arange(3, dtype=np.uint8).reshape(3, 1, 1, 1).repeat(3, 3)
    part = Alternates(x, np.array([4, 0, 2])).of(np.array([False, True, True, False, True]))
    assert part.index.tolist() == [2, 1]
    assert part.x[:, 0, 0, 0].tolist() == [0, 2]
