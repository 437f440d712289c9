"""The pixels of a folder of pictures: exact squares, kinds of files, damage, memory."""

import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image

from edgemeta.model.preprocess import crop_rectangle, resize_area
from edgemeta.toolchain.data.class_folders import list_class_folders
from edgemeta.toolchain.data.dataset import load_dataset
from edgemeta.toolchain.data.picture_files import make_square, read_pictures, read_squares
from edgemeta.toolchain.errors import DataError

Draw = Callable[..., Any]


@pytest.mark.parametrize("size", [1, 24, 33, 224])
@pytest.mark.parametrize("shape", [(31, 47), (64, 48), (24, 24), (1, 300), (500, 3)])
def test_squares_are_the_definitions_crop_and_resize(draw: Draw, size: int, shape: tuple[int, int]) -> None:
    frame = draw(5, *shape)
    region = crop_rectangle(shape, (size, size), "center")
    cropped = frame[region.top : region.top + region.height, region.left : region.left + region.width]
    assert (make_square(size)(frame) == resize_area(cropped, size, size)[..., ::-1]).all()


def test_squares_are_new_arrays(draw: Draw) -> None:
    square = make_square(8)
    one = square(draw(1))
    kept = one.copy()
    square(draw(2))
    assert (one == kept).all()


@pytest.mark.parametrize("size", [0, 1025])
def test_sizes_that_are_refused(size: int) -> None:
    with pytest.raises(DataError, match=rf"is {size}, expected 1 \.\. 1024 pixels"):
        make_square(size)


def test_pictures_come_one_at_a_time_in_full_size(class_folder: Path, draw: Draw, said: list[str]) -> None:
    files = list_class_folders(class_folder, said.append)
    found = dict(read_pictures(files, said.append))
    assert list(found) == list(range(9))
    assert (found[2] == draw(0, 31, 47)).all()  # boat/0.png
    assert said == []


def test_every_kind_of_picture_that_the_reader_takes(class_folder: Path, draw: Draw) -> None:
    colour = draw(77, 20, 20)
    gray = colour[..., 0]
    kinds = {
        "alpha.png": (cv2.cvtColor(colour, cv2.COLOR_BGR2BGRA), colour),
        "deep.png": (colour.astype(np.uint16) * 257, colour),
        "gray.png": (gray, np.repeat(gray[..., None], 3, axis=2)),
        "plain.bmp": (colour, colour),
        "plain.tif": (colour, colour),
        "plain.ppm": (colour, colour),
    }
    for name, (stored, _) in kinds.items():
        cv2.imwrite(str(class_folder / "car" / name), stored)
    data = load_dataset(class_folder, size=20)
    assert data.names is not None
    for name, (_, wanted) in kinds.items():
        assert (data.x[data.names.index(f"car/{name}")] == wanted[..., ::-1]).all(), name


def test_the_orientation_that_the_camera_noted_is_applied(class_folder: Path) -> None:
    halves = np.zeros((32, 64, 3), np.uint8)
    halves[:, 32:] = 255  # light on the right
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise: light at the bottom
    buffer = io.BytesIO()
    Image.fromarray(halves).save(buffer, "JPEG", quality=95, exif=exif)
    (class_folder / "car" / "turned.jpg").write_bytes(buffer.getvalue())
    data = load_dataset(class_folder, size=16)
    assert data.names is not None
    turned = data.x[data.names.index("car/turned.jpg")]
    assert turned[:7].max() < 30
    assert turned[9:].min() > 225


def test_damaged_pictures_are_named_and_left_out(class_folder: Path, draw: Draw, said: list[str]) -> None:
    good = cv2.imencode(".jpg", draw(3))[1].tobytes()
    for name, content in {
        "a.jpg": b"",
        "b.jpg": b"no picture",
        "c.jpg": good[: len(good) // 2],
        "d.jpg": good[: len(good) // 2] + b"\xff\xd9",  # with the end marker, but without the data before it
        "e.png": (class_folder / "car" / "0.png").read_bytes()[:100],
    }.items():
        (class_folder / "bird" / name).write_bytes(content)
    data = load_dataset(class_folder, size=8, report=said.append)
    assert len(data) == 9
    assert (data.names or ())[:3] == ("bird/0.png", "bird/1.png", "boat/0.png")
    assert len(said) == 5
    for sentence, name in zip(said, ("a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.png"), strict=True):
        assert sentence.startswith(f"left out: image {class_folder}/bird/{name} ")
        assert "\n" not in sentence


def test_a_class_of_damaged_pictures_only(class_folder: Path, said: list[str]) -> None:
    for path in (class_folder / "boat").iterdir():
        path.write_bytes(b"damaged")
    with pytest.raises(DataError, match="boat: no picture of this class can be decoded, expected at least one"):
        read_squares(list_class_folders(class_folder, said.append), 8, said.append)
    assert len(said) == 3


@pytest.mark.gate("writes and reads 48 pictures of 12 megapixels")
def test_memory_holds_one_full_size_picture(tmp_path: Path) -> None:
    big = np.full((3000, 4000, 3), 90, np.uint8)
    for label in ("a", "b"):
        (tmp_path / "big" / label).mkdir(parents=True)
        for number in range(24):
            big[:, number] = number
            cv2.imwrite(str(tmp_path / "big" / label / f"{number}.jpg"), big)
    program = (
        "import resource, sys; from pathlib import Path; from edgemeta.toolchain.data.dataset import load_dataset\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak(); load_dataset(Path(sys.argv[1]), size=96); print((peak() - before) // 1024)"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "big"], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200  # MiB; all pictures together have 1,648
