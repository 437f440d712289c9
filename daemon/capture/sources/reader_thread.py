"""Reads captures that may block for ever, in a thread that can be abandoned.

A driver may hang in `open` or `read` beyond its own timeout. So a separate reader thread does both
and passes on one frame at a time; the camera thread waits no longer than the timeout and then abandons the reader. An
abandoned reader releases its capture as soon as its call returns. The number of hanging readers is limited, so that a
source that hangs for ever does not use more and more threads.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from edgemeta.daemon.capture.source import Frame, Pixels, SourceError, SourceSilentError
from edgemeta.daemon.runtime.threads import guarded_thread

MAX_HANGING = 3
"""Most readers of one source that may hang; with more the source waits for one of them to return."""


class Capture(Protocol):
    """A device or stream that delivers frames and may block."""

    def read(self) -> Pixels:
        """Return the next frame [H, W, 3], BGR. Raises SourceError."""
        ...

    def release(self) -> None:
        """Release everything."""
        ...


class _Reader:
    """One reader thread, and its queue to the camera thread: frames, or the error that ended it."""

    def __init__(self, opener: Callable[[], Capture]) -> None:
        self._opener = opener
        self._abandoned = threading.Event()
        self._queue: queue.Queue[Frame | BaseException] = queue.Queue(maxsize=1)
        self._thread = guarded_thread("reader", self._run, self._put)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def take(self, timeout: float) -> Frame | None:
        """Wait for a frame; None after `timeout` seconds. Raises the error that ended the thread."""
        try:
            item = self._queue.get(timeout=timeout)
        except queue.Empty:
            return None
        if isinstance(item, BaseException):
            raise item
        return item

    def abandon(self) -> None:
        """Let the thread end as soon as its call returns."""
        self._abandoned.set()

    def _run(self) -> None:
        capture = self._opener()
        try:
            while not self._abandoned.is_set():
                pixels = capture.read()
                self._put(Frame(pixels, time.monotonic_ns()))
        finally:
            capture.release()

    def _put(self, item: Frame | BaseException) -> None:
        """Pass on an item; it waits until the item is taken or the reader abandoned, so no frame is lost uncounted."""
        while not self._abandoned.is_set():
            try:
                self._queue.put(item, timeout=0.2)
                return
            except queue.Full:
                continue


class ReaderThread:
    """Reads a capture with a deadline. name: the source's name in errors."""

    live = True

    def __init__(self, name: str, timeout: float, opener: Callable[[], Capture]) -> None:
        self._name = name
        self._timeout = timeout
        self._opener = opener
        self._reader: _Reader | None = None
        self._abandoned: list[_Reader] = []

    def open(self) -> None:
        """Start a reader. Raises SourceError while too many of the earlier ones hang."""
        self._abandoned = [reader for reader in self._abandoned if reader.alive]
        if len(self._abandoned) >= MAX_HANGING:
            raise SourceError(
                f"{self._name} hangs in {len(self._abandoned)} reader threads, waiting for one of them to return"
            )
        try:
            self._reader = _Reader(self._opener)
        except RuntimeError as error:  # too many threads
            raise SourceError(f"{self._name} has no thread of its own: {error}") from error

    def read(self) -> Frame:
        """Return the next frame. Raises SourceError on failure, or after the timeout."""
        if self._reader is None:
            raise SourceError(f"{self._name} is not open")
        frame = self._reader.take(self._timeout)
        if frame is None:
            raise SourceSilentError(f"{self._name} gave no frame for {self._timeout:g} s")
        return frame

    def close(self) -> None:
        """Abandon the reader; its thread ends when its call returns."""
        if self._reader is not None:
            self._reader.abandon()
            self._abandoned.append(self._reader)
            self._reader = None
