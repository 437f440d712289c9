"""What is made of each picture: one field, turned, cut to a circle, blacked out, a region - each against NumPy."""

import urllib.request
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.capture.reshape import blacked_out, crop, cut_to_circle, kept_by, one_field, steps_of, turned
from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.config.camera import CameraConfig, RegionConfig
from edgemeta.daemon.config.picture import CircleConfig

PICTURE = np.random.default_rng(0).integers(1, 256, (48, 64, 3)).astype(np.uint8)


def made_of(pixels: Pixels, **keys: Any) -> Pixels:
    for step in steps_of(CameraConfig.model_validate({"source": "x", **keys})):
        pixels = step(pixels)
    return pixels


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_picture_is_turned_clockwise(degrees: int) -> None:
    np.testing.assert_array_equal(turned(PICTURE, degrees), np.rot90(PICTURE, -degrees // 90))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 47, 48])
def test_one_field_keeps_even_rows_and_puts_their_means_between(rows: int) -> None:
    pixels = PICTURE[:rows].copy()
    made = one_field(pixels)
    np.testing.assert_array_equal(made[::2], pixels[::2])
    for row in range(1, rows, 2):
        beside = pixels[row - 1 : row + 2 : 2].astype(np.float64)
        np.testing.assert_array_equal(made[row], np.rint(beside.mean(axis=0)))
    np.testing.assert_array_equal(pixels, PICTURE[:rows])


def test_a_circle_is_cut_to_its_square_and_black_outside() -> None:
    made = cut_to_circle(PICTURE, CircleConfig(x=0.5, y=0.5, radius=0.25))  # radius 12 around (32, 24)
    assert made.shape == (24, 24, 3)
    y, x = np.mgrid[12:36, 20:44]
    distance = np.hypot(x - 32, y - 24)
    np.testing.assert_array_equal(made[distance < 11], PICTURE[12:36, 20:44][distance < 11])
    assert not made[distance > 13].any()


@given(x=st.floats(0, 1), y=st.floats(0, 1), radius=st.floats(0.001, 1), w=st.integers(1, 9), h=st.integers(1, 9))
def test_any_circle_leaves_a_picture(x: float, y: float, radius: float, w: int, h: int) -> None:
    pixels = np.full((h, w, 3), 255, np.uint8)
    assert cut_to_circle(pixels, CircleConfig(x=x, y=y, radius=radius)).size > 0


def test_polygons_are_black_also_where_they_overlap_or_cross_themselves() -> None:
    """Inside of each polygon by the rule of angles, no pixel is left; far outside none has changed."""
    square = [[0.25, 0.25], [0.75, 0.25], [0.75, 0.75], [0.25, 0.75]]
    other = [[0.5, 0.5], [1, 0.5], [1, 1], [0.5, 1]]
    made = blacked_out(PICTURE.copy(), [square, other])
    assert not made[12:36, 16:48].any()
    assert not made[24:, 32:].any()
    np.testing.assert_array_equal(made[:11], PICTURE[:11])
    np.testing.assert_array_equal(made[:, :15], PICTURE[:, :15])
    kept = kept_by([square, other], PICTURE.shape, 4)
    np.testing.assert_array_equal(kept, made[::4, ::4].any(axis=2))


def test_the_whole_picture_can_be_blacked_out_and_what_may_not_be_written_is_copied() -> None:
    whole = [[0, 0], [1, 0], [1, 1], [0, 1]]
    fixed = PICTURE.copy()
    fixed.flags.writeable = False
    assert not blacked_out(fixed, [whole]).any()
    np.testing.assert_array_equal(fixed, PICTURE)


def test_masks_are_in_the_turned_picture_and_the_region_in_what_is_left() -> None:
    left_half = [[0, 0], [0.5, 0], [0.5, 1], [0, 1]]
    made = made_of(PICTURE.copy(), rotation=90, privacy_masks=[left_half], region={"left": 0.25, "width": 0.5})
    expected = np.rot90(PICTURE, -1).copy()
    expected[:, :25] = 0  # 0.5 of columns 0 to 47 is column 23.5, and edges are black, too
    np.testing.assert_array_equal(made, expected[:, 12:36])


def test_nothing_is_done_without_a_key() -> None:
    assert steps_of(CameraConfig.model_validate({"source": "x"})) == ()


shares = st.floats(0, 0.999)


@given(
    left=shares,
    top=shares,
    width=st.floats(0.001, 1),
    height=st.floats(0.001, 1),
    w=st.integers(1, 9),
    h=st.integers(1, 9),
)
def test_a_region_is_never_empty_and_inside(
    left: float, top: float, width: float, height: float, w: int, h: int
) -> None:
    region = RegionConfig(left=left, top=top, width=min(width, 1 - left), height=min(height, 1 - top))
    picture = np.arange(w * h * 3, dtype=np.uint8).reshape(h, w, 3)
    pixels = crop(picture, region)
    assert pixels.size > 0
    assert abs(pixels.shape[1] - region.width * w) <= 1
    assert abs(pixels.shape[0] - region.height * h) <= 1


@pytest.mark.parametrize("keys", [{"left": 0.6, "width": 0.5}, {"top": 0.01}, {"left": 1.0}, {"width": 0.0}])
def test_a_region_outside_of_the_frame_is_refused(keys: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"together at most 1|less than 1|greater than 0"):
        RegionConfig(**keys)


def test_what_is_blacked_out_is_nowhere_not_in_what_is_classified_nor_on_the_page(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, tmp_path: Path, free_port: Any
) -> None:
    """Left red, right blue, and red is more: with the left black the picture is blue."""
    picture = np.full((48, 64, 3), (0, 0, 255), np.uint8)
    picture[:, 48:] = (255, 0, 0)
    cv2.imwrite(str(tmp_path / "halves.png"), picture)
    left = [[0, 0], [0.74, 0], [0.74, 1], [0, 1]]
    front = {"source": str(tmp_path / "halves.png"), "loop": True, "fps": 20, "privacy_masks": [left]}
    port = free_port()
    run_daemon(
        write_config(
            cameras={"front": front},
            mqtt={"host": "127.0.0.1", "port": broker.port},
            web={"enabled": True, "port": port, "show_frames": True},
        )
    )
    assert subscriber.wait("front/frame", 3)[0].json["labels"][0]["label"] == "blue"
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/frame/front.jpg", timeout=60) as answer:
        shown = cv2.imdecode(np.frombuffer(answer.read(), np.uint8), cv2.IMREAD_COLOR)
    assert shown is not None
    assert shown[:, :40].max() < 30
    assert shown[:, 56:, 0].min() > 200
