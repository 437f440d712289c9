"""Selects the frames to classify, and a part of them: rate limit, region of interest, motion gate.

Messages treat a skipped frame as not captured: it has no number and is not counted as dropped.
"""

from dataclasses import replace

import numpy as np

from edgemeta.daemon.capture.source import Frame, Pixels
from edgemeta.daemon.config.camera import CameraConfig, MotionConfig, RegionConfig
from edgemeta.daemon.runtime.clock import NS

GRID = 8
"""Every GRID-th pixel of every GRID-th row is compared to detect motion."""


class FrameFilter:
    """Filters the frames of a source, from one `open` to the next."""

    def __init__(self, config: CameraConfig) -> None:
        self._interval_ns = round(NS / config.max_fps) if config.max_fps else 0
        self._due_ns = 0
        self._region = config.region if config.region != RegionConfig() else None
        self._gate = MotionGate(config.motion) if config.motion.enabled else None

    def apply(self, frame: Frame) -> Frame | None:
        """Return the frame, cropped to the region of interest, or None to skip it.

        If the source is faster than the limit, the first frame after each due time passes. Due times are one interval
        apart, so the average rate is the limit, whatever the ratio of the two rates.
        """
        now = frame.captured_ns
        if now < self._due_ns:
            return None
        passed = replace(frame, pixels=crop(frame.pixels, self._region)) if self._region else frame
        if self._gate is not None and not self._gate.passes(passed):
            return None
        self._due_ns = max(self._due_ns + self._interval_ns, now)
        return passed


class MotionGate:
    """Passes a frame that differs enough from the last one that passed, and any frame after `max_interval`."""

    def __init__(self, config: MotionConfig) -> None:
        self._config = config
        self._passed = np.zeros((0, 0, 3), np.int16)
        self._passed_ns = 0

    def passes(self, frame: Frame) -> bool:
        """Return whether enough of the grid's pixels changed in any channel, or the last pass is too long ago."""
        pixels = frame.pixels[::GRID, ::GRID].astype(np.int16)
        quiet = (
            pixels.shape == self._passed.shape
            and frame.captured_ns - self._passed_ns < self._config.max_interval * NS
            and np.mean(np.abs(pixels - self._passed).max(axis=2) > self._config.threshold) < self._config.min_area
        )
        if not quiet:
            self._passed, self._passed_ns = pixels, frame.captured_ns
        return not quiet


def crop(pixels: Pixels, region: RegionConfig) -> Pixels:
    """Return a copy of the region [h, w, 3]: its corners are rounded to whole pixels, and it is never empty."""
    height, width = pixels.shape[:2]
    top, left = min(round(region.top * height), height - 1), min(round(region.left * width), width - 1)
    bottom = max(top + 1, round((region.top + region.height) * height))
    right = max(left + 1, round((region.left + region.width) * width))
    return np.ascontiguousarray(pixels[top:bottom, left:right])
