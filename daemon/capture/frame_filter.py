"""Which of a camera's frames go on to the network, and which part of them: rate cap, region of interest, motion gate.

What is kept back here was not captured, as far as the messages are concerned: it has no number and is no drop.
"""

import numpy as np

from edgemeta.daemon.capture.source import Frame, Pixels
from edgemeta.daemon.config.camera import CameraConfig, MotionConfig, RegionConfig
from edgemeta.daemon.runtime.clock import NS

GRID = 8
"""Motion is looked for in every GRID-th pixel of every GRID-th row."""


class FrameFilter:
    """Lets frames of one opening of a source pass, or not."""

    def __init__(self, config: CameraConfig) -> None:
        self._interval_ns = round(NS / config.max_fps) if config.max_fps else 0
        self._due_ns = 0
        self._region = config.region if config.region != RegionConfig() else None
        self._gate = MotionGate(config.motion) if config.motion.enabled else None

    def choose(self, frame: Frame) -> Frame | None:
        """Return the frame, cut to the region of interest, or None where it is kept back.

        Of a source that is faster than the cap each frame passes that is the first after its turn; turns are one
        interval apart, so that the average is the cap's however the two rates beat.
        """
        now = frame.captured_ns
        if now < self._due_ns:
            return None
        chosen = Frame(cut(frame.pixels, self._region), now) if self._region else frame
        if self._gate is not None and not self._gate.opens(chosen):
            return None
        self._due_ns = max(self._due_ns + self._interval_ns, now)
        return chosen


class MotionGate:
    """Opens for a picture that differs enough from the last one that passed, and now and then for any."""

    def __init__(self, config: MotionConfig) -> None:
        self._config = config
        self._passed = np.zeros((0, 0, 3), np.int16)
        self._passed_ns = 0

    def opens(self, frame: Frame) -> bool:
        """Tell whether enough of the grid's pixels changed in any channel, or the last passage is long ago."""
        seen = frame.pixels[::GRID, ::GRID].astype(np.int16)
        quiet = (
            seen.shape == self._passed.shape
            and frame.captured_ns - self._passed_ns < self._config.max_interval * NS
            and np.mean(np.abs(seen - self._passed).max(axis=2) > self._config.threshold) < self._config.min_area
        )
        if not quiet:
            self._passed, self._passed_ns = seen, frame.captured_ns
        return not quiet


def cut(pixels: Pixels, region: RegionConfig) -> Pixels:
    """Return the region as a picture of its own: its corners rounded to whole pixels, and never empty."""
    height, width = pixels.shape[:2]
    top, left = min(round(region.top * height), height - 1), min(round(region.left * width), width - 1)
    bottom = max(top + 1, round((region.top + region.height) * height))
    right = max(left + 1, round((region.left + region.width) * width))
    return np.ascontiguousarray(pixels[top:bottom, left:right])
