"""The newest frame of each camera: older ones are counted as superseded, not queued, so latency stays bounded."""

import threading
import time
from collections.abc import Collection
from typing import NamedTuple

from edgemeta.daemon.capture.source import Frame


class CapturedFrame(NamedTuple):
    """A frame with its camera and number; `superseded` counts the camera's earlier frames that were not taken."""

    camera: str
    sequence: int
    frame: Frame
    superseded: int


class _Slot:
    """One camera's newest frame, and its counts since the start."""

    def __init__(self) -> None:
        self.newest: CapturedFrame | None = None
        self.captured = 0
        self.superseded = 0


class LatestFrames:
    """One slot per camera. Camera threads put; one worker takes from the cameras in turn, so none starves another."""

    def __init__(self, cameras: list[str]) -> None:
        self._slots = {camera: _Slot() for camera in cameras}
        self._turns = list(cameras)
        self._changed = threading.Condition()
        self.closed = False

    def put(self, camera: str, frame: Frame) -> None:
        """Number a captured frame and replace the camera's previous one; does nothing once closed."""
        with self._changed:
            self._store(camera, frame)

    def put_when_free(self, camera: str, frame: Frame) -> None:
        """Like `put`, but wait until the camera's slot is free, so that no frame is superseded."""
        slot = self._slots[camera]
        with self._changed:
            self._changed.wait_for(lambda: slot.newest is None or self.closed)
            self._store(camera, frame)

    def _store(self, camera: str, frame: Frame) -> None:
        if self.closed:
            return
        slot = self._slots[camera]
        slot.captured += 1
        if slot.newest is not None:
            slot.superseded += 1
        slot.newest = CapturedFrame(camera, slot.captured, frame, slot.superseded)
        self._changed.notify_all()

    def take(self) -> CapturedFrame | None:
        """Wait for a frame of any camera and take it; None once closed."""
        with self._changed:
            while not self.closed:
                for camera in self._turns:
                    if (taken := self._take_of(camera)) is not None:
                        return taken
                self._changed.wait()
            return None

    def take_more(self, cameras: Collection[str], most: int, wait: float) -> list[CapturedFrame]:
        """Take one frame of each of these cameras, at most `most`: of those that wait or come within `wait` seconds."""
        deadline = time.monotonic() + wait
        wanted = set(cameras)
        found: list[CapturedFrame] = []
        with self._changed:
            while True:
                for camera in [each for each in self._turns if each in wanted]:
                    if len(found) < most and (taken := self._take_of(camera)) is not None:
                        found.append(taken)
                        wanted.remove(camera)
                left = deadline - time.monotonic()
                if len(found) == most or not wanted or left <= 0 or self.closed:
                    return found
                self._changed.wait(left)

    def is_waiting(self, camera: str) -> bool:
        """Whether a frame of this camera has not been taken yet. Without the lock: it may be taken just now."""
        return self._slots[camera].newest is not None

    def _take_of(self, camera: str) -> CapturedFrame | None:
        """Take a camera's frame, if there is one; its next turn is the last. The lock is held."""
        taken = self._slots[camera].newest
        if taken is not None:
            self._slots[camera].newest = None
            self._turns.remove(camera)
            self._turns.append(camera)
            self._changed.notify_all()
        return taken

    def close(self) -> None:
        """Accept no more frames and wake all waiting threads; `counts` still includes the frames left here."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()

    def counts(self, camera: str) -> tuple[int, int, int]:
        """Return a camera's frames captured, superseded and waiting (0 or 1), consistent with each other."""
        slot = self._slots[camera]
        with self._changed:
            return slot.captured, slot.superseded, int(slot.newest is not None)
