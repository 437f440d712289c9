"""Preprocessing on the device equals the definition bit for bit, on the emulation with every access checked."""

from collections.abc import Sequence

import numpy as np
import pytest

from edgemeta.kernels.cuda.preprocess.geometry import FrameLayout
from edgemeta.model.errors import FrameError
from edgemeta.model.preprocess import Rectangle
from tests.emulation.executor import Emulator
from tests.kernels.cuda.preprocess.frames import Shot, Target, expected_of, plan_of, shot, target_of

TARGETS = {
    "rgb": target_of((32, 32), "rgb"),
    "letterbox": target_of((9, 13), "bgra", "letterbox", signed=False),
    "corner": target_of((13, 9), "yr", "letterbox", align="corner"),
    "gray": target_of((5, 7), "gray", "full"),
    "wide": target_of((3, 150), "rgb", "full"),
}
SIZES = [(480, 640), (1, 1), (7, 5), (33, 64), (64, 33), (1, 700), (700, 1), (97, 101), (32, 32), (31, 33), (255, 2)]


def assert_exact(target: Target, shots: Sequence[Shot], architecture: str = "sm_53", order: int = 5) -> None:
    plan, batch = plan_of(target, shots, architecture)
    (found,) = Emulator(plan, order, "checked").run(batch)
    np.testing.assert_array_equal(found, expected_of(target, shots), strict=True)


@pytest.mark.parametrize("name", list(TARGETS))
def test_frames_of_all_sizes_in_one_launch(name: str) -> None:
    """Colour and gray frames that are smaller, larger, longer and wider, with random pixels and extremes."""
    shots = [shot((*size, 3), n) for n, size in enumerate(SIZES)]
    shots += [shot(size, n) for n, size in enumerate(SIZES[2:])]
    shots += [shot((37, 53, 3), value=0), shot((53, 37, 3), value=255), shot((37, 53), value=255)]
    assert_exact(TARGETS[name], shots)


@pytest.mark.parametrize("architecture", ["sm_53", "sm_87"])
def test_random_sizes(architecture: str) -> None:
    rng = np.random.default_rng(8)
    shapes = [(int(h), int(w), 3)[: 3 - n % 2] for n, (h, w) in enumerate(rng.integers(1, 90, (40, 2)))]
    for name in ("rgb", "letterbox"):
        assert_exact(TARGETS[name], [shot(shape, n) for n, shape in enumerate(shapes)], architecture)


@pytest.mark.parametrize("shape", [(9001, 7), (3, 70001), (2999, 3001), (2161, 539, 3), (300, 9001, 3)])
@pytest.mark.parametrize("value", [None, 255])
def test_large_frames_do_not_overflow(shape: tuple[int, ...], value: int | None) -> None:
    """More than 256 rows under a pixel, several segments of a row, areas of more than 32 bits."""
    assert_exact(TARGETS["gray"], [shot(shape, 1, value)])


@pytest.mark.parametrize("sides", [(2, 41), (90, 91), (1, 25801), (255, 257)])
def test_means_at_the_border_between_two_integers(sides: tuple[int, int]) -> None:
    """The mean of all pixels is k - 1/2, which rounds up, or one unit of the sum less.

    The float quotient is one too low for some sums of 2 x 41 pixels, and one too high for one of 1 x 25801.
    """
    target, count = target_of((1, 1), "gray", "full"), sides[0] * sides[1]
    shots = []
    for level in (1, 85, 128, 252, 255):
        least = -(-(2 * level - 1) * count // 2)
        for total in (least, least - 1):
            pixels = np.full(count, total // count, np.uint8)
            pixels[: total % count] += 1
            shots.append(Shot(pixels.reshape(sides), [Rectangle(0, 0, *sides)]))
    assert_exact(target, shots)


def test_regions_and_strides() -> None:
    """Regions of several frames become images in order; rows and columns may be strided, reversed or mirrored."""
    whole = np.random.default_rng(2).integers(0, 256, (90, 120, 3)).astype(np.uint8)
    regions = [Rectangle(0, 0, 60, 80), Rectangle(29, 39, 60, 80), Rectangle(88, 118, 1, 1), Rectangle(1, 1, 50, 7)]
    views = [whole[::2, :80][:40], whole[60:0:-1, :80], whole[:60, 100:20:-1], whole[..., ::-1], whole[3:, 1::3, 0]]
    shots = [Shot(whole, regions), *(Shot(v, [Rectangle(1, 1, v.shape[0] - 1, v.shape[1] - 1)]) for v in views)]
    assert_exact(TARGETS["rgb"], shots)
    assert_exact(TARGETS["letterbox"], shots)


def test_only_the_crop_is_copied() -> None:
    layout = FrameLayout(TARGETS["rgb"], (480, 640, 3), [Rectangle(0, 0, 480, 640)])
    assert (layout.box, layout.nbytes) == (Rectangle(0, 80, 480, 480), 480 * 480 * 3)


def test_a_frame_beyond_all_bounds_is_refused() -> None:
    side = (1 << 24) + 43
    with pytest.raises(
        FrameError, match=rf"a frame of 2 x {side} pixels is too large to be preprocessed on the device"
    ):
        FrameLayout(TARGETS["gray"], (side, 2), [Rectangle(0, 0, side, 2)])
