"""The JPEG container: decoding with either decoder, and its faults."""

import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.toolchain.data import jpeg_container
from edgemeta.toolchain.data.dataset import CIFAR10_LABELS, load_dataset
from edgemeta.toolchain.errors import DataError, MissingExtraError


@pytest.fixture
def container(write_npz: Any, pixels: Any, classes: Any) -> Path:
    """A container of twenty images, written with OpenCV (which every install has)."""
    return Path(write_npz(**members(pixels, classes)))


def members(pixels: Any, y: Any) -> dict[str, Any]:
    files = [cv2.imencode(".jpg", image[:, :, ::-1], [cv2.IMWRITE_JPEG_QUALITY, 95])[1].tobytes() for image in pixels]
    offsets = np.cumsum([0, *map(len, files)]).astype(np.uint32)
    return {"jpeg": np.frombuffer(b"".join(files), np.uint8), "offsets": offsets, "y": y}


def without_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    monkeypatch.setitem(sys.modules, "PIL.Image", None)


def test_decodes_with_opencv(container: Path, pixels: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    without_pillow(monkeypatch)
    data = load_dataset(container, labels=CIFAR10_LABELS)
    assert data.x.shape == pixels.shape
    assert np.abs(data.x.astype(int) - pixels).mean() < 12


def test_pillow_and_opencv_nearly_agree(container: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("PIL", reason="Pillow is not installed: pip install edgemeta[train]")
    with_pillow = load_dataset(container, labels=CIFAR10_LABELS).x.astype(int)
    without_pillow(monkeypatch)
    assert np.abs(load_dataset(container, labels=CIFAR10_LABELS).x - with_pillow).max() <= 6


def test_no_decoder(container: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without_pillow(monkeypatch)
    monkeypatch.setitem(sys.modules, "cv2", None)
    with pytest.raises(MissingExtraError, match=r"pip install edgemeta\[train\]"):
        load_dataset(container, labels=CIFAR10_LABELS)


@pytest.mark.parametrize("decoder", ["Pillow", "OpenCV"])
@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"offsets": None}, "the archive holds jpeg, y"),
        ({"jpeg": np.zeros(4)}, "jpeg is float64"),
        ({"offsets": np.array([0])}, "expected integers"),
        ({"offsets": np.array([0.0, 4.0])}, "expected integers"),
        ({"offsets": np.array([0, 9, 9, 100])}, "do not always increase"),
        ({"offsets": np.array([1, 2])}, "offsets run from 1 to 2"),
        ({"jpeg": np.zeros(100, np.uint8), "offsets": np.array([0, 100])}, "image 0"),
    ],
)
def test_wrong_container(
    write_npz: Any,
    pixels: Any,
    classes: Any,
    change: dict[str, Any],
    text: str,
    decoder: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if decoder == "OpenCV":
        without_pillow(monkeypatch)
    else:
        pytest.importorskip("PIL", reason="Pillow is not installed: pip install edgemeta[train]")
    path = write_npz(**{k: v for k, v in {**members(pixels, classes), **change}.items() if v is not None})
    with pytest.raises(DataError, match=text) as error:
        load_dataset(path, labels=CIFAR10_LABELS)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_truncated_jpeg_and_odd_sizes(write_npz: Any, pixels: Any, classes: Any) -> None:
    pytest.importorskip("PIL", reason="Pillow is not installed: pip install edgemeta[train]")
    good = members(pixels[:2], classes[:2])
    ends = good["offsets"].astype(int)
    cut = np.concatenate([good["jpeg"][: ends[1]], good["jpeg"][ends[1] : ends[2] - 200]])
    path = write_npz(jpeg=cut, offsets=np.array([0, ends[1], len(cut)]), y=classes[:2])
    with pytest.raises(DataError, match="image 1 cannot be decoded"):
        load_dataset(path, labels=CIFAR10_LABELS)
    small = members(pixels[:1, :16, :16], classes[:1])
    both = np.concatenate([good["jpeg"][: ends[1]], small["jpeg"]])
    path = write_npz(jpeg=both, offsets=np.array([0, ends[1], len(both)]), y=classes[:2])
    with pytest.raises(DataError, match="image 1 is 16x16 pixels, expected 32x32"):
        load_dataset(path, labels=CIFAR10_LABELS)


def test_grey_and_huge_images(write_npz: Any, classes: Any) -> None:
    pytest.importorskip("PIL", reason="Pillow is not installed: pip install edgemeta[train]")
    grey = cv2.imencode(".jpg", np.zeros((8, 8), np.uint8))[1].reshape(-1)
    path = write_npz(jpeg=grey, offsets=np.array([0, len(grey)]), y=classes[:1])
    with pytest.raises(DataError, match="image 0 is L, 8x8 pixels, expected an RGB JPEG"):
        load_dataset(path, labels=CIFAR10_LABELS)
    wide = cv2.imencode(".jpg", np.zeros((1, jpeg_container.MAX_SIDE + 1, 3), np.uint8))[1].reshape(-1)
    path = write_npz(jpeg=wide, offsets=np.array([0, len(wide)]), y=classes[:1])
    with pytest.raises(DataError, match="image 0 is RGB, 1025x1 pixels"):
        load_dataset(path, labels=CIFAR10_LABELS)
