"""A picture that stands still, as encoders repeat it, and pictures that live, however little."""

import shutil
import subprocess
from collections.abc import Callable, Iterable

import cv2
import numpy as np
import pytest

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.capture.still_picture import StillPicture, sample_of

TENTH = 10**8
WIDTH, HEIGHT = 192, 144
CHANCE = np.random.default_rng(1)
STILL: Pixels = cv2.GaussianBlur(CHANCE.integers(0, 255, (HEIGHT, WIDTH, 3), np.uint8), (9, 9), 3)
NIGHT = (STILL * 0.15).astype(np.uint8)


def judged(pictures: Iterable[Pixels], seconds: float = 8) -> list[bool]:
    """What is said after each of the pictures, ten a second."""
    still = StillPicture(seconds)
    said = []
    for number, picture in enumerate(pictures):
        if still.due(number * TENTH):
            still.add(sample_of(picture), number * TENTH)
        said.append(still.still)
    return said


def encoded(pictures: Iterable[Pixels], *options: str) -> list[Pixels]:
    """The pictures after an encoder and a decoder."""
    if shutil.which("ffmpeg") is None:
        pytest.skip("ffmpeg is not installed (Debian package ffmpeg)")
    raw = ["-f", "rawvideo", "-pix_fmt", "bgr24"]
    size = ["-s", f"{WIDTH}x{HEIGHT}", "-r", "10"]
    quiet = ["ffmpeg", "-v", "error"]
    sent = b"".join(picture.tobytes() for picture in pictures)
    stream = subprocess.run(
        [*quiet, *raw, *size, "-i", "-", *options, "-f", "matroska", "-"],
        input=sent,
        stdout=subprocess.PIPE,
        check=True,
    )
    shown = subprocess.run([*quiet, "-i", "-", *raw, "-"], input=stream.stdout, stdout=subprocess.PIPE, check=True)
    return list(np.frombuffer(shown.stdout, np.uint8).reshape(-1, HEIGHT, WIDTH, 3))


def with_noise(picture: Pixels, sigma: float, number: int) -> list[Pixels]:
    noise = CHANCE.normal(0.5, sigma, (number, *picture.shape))
    return list(np.clip(picture + noise, 0, 255).astype(np.uint8))


def with_clock(picture: Pixels, number: int) -> list[Pixels]:
    pictures = [picture.copy() for _ in range(number)]
    for tenth, each in enumerate(pictures):
        text = f"2026-11-26 23:59:{tenth // 10 % 60:02}"
        cv2.putText(each, text, (8, 20), cv2.FONT_HERSHEY_SIMPLEX, 0.6, (255, 255, 255), 2)
    return pictures


X264 = ["-c:v", "libx264", "-preset", "ultrafast", "-tune", "zerolatency", "-g", "20", "-pix_fmt", "yuv420p", "-b:v"]


@pytest.mark.parametrize("kilobits", [60, 200])
@pytest.mark.parametrize("picture", [STILL, NIGHT], ids=["day", "night"])
def test_an_encoded_still_is_still_and_stays_so(picture: Pixels, kilobits: int) -> None:
    said = judged(encoded([picture] * 200, *X264, f"{kilobits}k"))
    assert said.index(True) < 150
    assert all(said[150:])


def test_a_repeated_picture_is_still_after_the_time() -> None:
    said = judged([STILL] * 120)
    assert said.index(True) in range(80, 84)


def test_a_clock_over_an_encoded_still_does_not_hide_it() -> None:
    said = judged(encoded(with_clock(STILL, 200), *X264, "200k"))
    assert all(said[150:])


@pytest.mark.parametrize("sigma", [0.6, 3])
def test_a_quiet_street_at_night_lives_by_its_noise(sigma: float) -> None:
    assert not any(judged(with_noise(NIGHT, sigma, 200)))


def test_a_quiet_street_under_light_that_flickers_lives_by_its_noise() -> None:
    pictures = with_noise(NIGHT, 0.6, 150)
    assert not any(judged(picture + np.uint8(number % 3 == 0) for number, picture in enumerate(pictures)))


def test_a_quiet_street_at_night_lives_by_its_noise_when_it_is_encoded() -> None:
    assert not any(judged(encoded(with_noise(NIGHT, 2, 200), *X264, "200k")))


def test_a_clip_of_noise_that_returns_lives() -> None:
    """Its pictures have equal twins, but no encoder leaves such differences."""
    pictures = list(CHANCE.integers(0, 255, (7, HEIGHT, WIDTH, 3)).astype(np.uint8))
    assert not any(judged(pictures[number % 7] for number in range(200)))


def walker(number: int) -> Pixels:
    picture = NIGHT.copy()
    picture[60:90, 10 + number // 2 : 20 + number // 2] += 15
    return picture


def dawn(number: int) -> Pixels:
    return np.clip(NIGHT + number // 20, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("moving", [walker, dawn])
def test_motion_without_any_noise_lives(moving: Callable[[int], Pixels]) -> None:
    assert not any(judged(moving(number) for number in range(250)))


def test_a_still_picture_lives_again_at_once_when_something_moves() -> None:
    said = judged([*[NIGHT] * 150, *(walker(number) for number in range(20))])
    assert said[149]
    assert not all(said[150:156])


def test_a_still_picture_lives_again_when_there_is_noise() -> None:
    said = judged([*[NIGHT] * 150, *with_noise(NIGHT, 1, 150)])
    assert said[149]
    assert not said[-1]


def test_few_frames_per_second_need_a_longer_time() -> None:
    still = StillPicture(8)
    for number in range(9):
        still.add(sample_of(STILL), number * 50 * TENTH)
        assert still.still == (number >= 7)


def test_pictures_of_another_size_are_a_change() -> None:
    still = StillPicture(1)
    for number in range(30):
        still.add(sample_of(STILL), number * TENTH)
    assert still.still
    still.add(sample_of(STILL[:100, :100]), 31 * TENTH)
    assert not still.still


@pytest.mark.parametrize("shape", [(1, 1), (2, 3), (7, 200), (1080, 1920)])
def test_any_size_has_a_sample(shape: tuple[int, int]) -> None:
    said = judged([np.full((*shape, 3), 90, np.uint8)] * 100)
    assert said[-1]
