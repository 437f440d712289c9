"""Selects the frames to classify, and what of them: rate limit, turned, cut and masked picture, motion gate.

Messages treat a skipped frame as not captured: it has no number and is not counted as dropped.
"""

import numpy as np
from numpy.typing import NDArray

from edgemeta.daemon.capture.reshape import kept_by, steps_of
from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.config.camera import CameraConfig, MotionConfig
from edgemeta.daemon.runtime.clock import NS

GRID = 8
"""Every GRID-th pixel of every GRID-th row is compared to detect motion."""


class FrameFilter:
    """Filters the frames of a source, from one `open` to the next."""

    def __init__(self, config: CameraConfig) -> None:
        self.limit(config.max_fps)
        self._due_ns = 0
        self._steps = steps_of(config)
        self._motion = config.motion
        self._gate = MotionGate(config.motion) if config.motion.enabled or config.motion.publish else None

    def limit(self, max_fps: float | None) -> None:
        """Let at most so many frames per second pass from now on; None: all."""
        self._interval_ns = round(NS / max_fps) if max_fps else 0

    def apply(self, frame: Frame) -> Frame | None:
        """Return the frame with the picture to classify, or None to skip it.

        If the source is faster than the limit, the first frame after each due time passes. Due times are one interval
        apart, so the average rate is the limit, whatever the ratio of the two rates.
        """
        now = frame.captured_ns
        if now < self._due_ns:
            return None
        passed = frame
        for step in self._steps:
            passed = passed._replace(pixels=step(passed.pixels))
        if self._gate is not None and not self._gate.passes(passed) and self._motion.enabled:
            return None
        self._due_ns = max(self._due_ns + self._interval_ns, now)
        return passed

    @property
    def motion(self) -> bool | None:
        """Whether there is motion in the last frame that was looked at; None where this is not asked for."""
        return self._gate.motion if self._gate is not None and self._motion.publish else None


class MotionGate:
    """Passes a frame that differs enough from the last one that passed, and any frame after `max_interval`."""

    def __init__(self, config: MotionConfig) -> None:
        self._config = config
        self._passed = np.zeros((0, 0, 3), np.int16)
        self._passed_ns = 0
        self._kept: NDArray[np.bool_] | None = None
        self._changed_ns: int | None = None
        self.motion = False
        """Whether a frame has changed within `off_after` before the last one; no frame is the first to change."""

    def passes(self, frame: Frame) -> bool:
        """Return whether enough of the grid's pixels changed in any channel, or the last pass is too long ago."""
        now, pixels = frame.captured_ns, frame.pixels[::GRID, ::GRID].astype(np.int16)
        is_other = pixels.shape != self._passed.shape
        if is_other:
            self._kept = kept_by(self._config.ignore, frame.pixels.shape, GRID) if self._config.ignore else None
        changed = not is_other and self._share_of_changed(pixels) >= self._config.min_area
        if changed:
            self._changed_ns = now
        self.motion = self._changed_ns is not None and now - self._changed_ns < self._config.off_after * NS
        passes = is_other or changed or now - self._passed_ns >= self._config.max_interval * NS
        if passes:
            self._passed, self._passed_ns = pixels, now
        return passes

    def _share_of_changed(self, pixels: NDArray[np.int16]) -> float:
        """Return the share of the pixels that count which differ; 0 where none counts."""
        differs = np.abs(pixels - self._passed).max(axis=2) > self._config.threshold
        counted = differs if self._kept is None else differs[self._kept]
        return float(np.mean(counted)) if counted.size else 0.0
