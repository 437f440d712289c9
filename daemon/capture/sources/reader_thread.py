"""Captures that may block for ever, read by a thread that can be left behind.

A driver or a network stream may hang in `open` or `read` beyond any timeout of its own. So a reader thread of its own
does both, and hands frames over one at a time; whoever waits for it waits no longer than the timeout and then abandons
it. An abandoned reader gives its capture back as soon as its call returns. Few may hang at once, so that a source which
hangs for ever costs no more and more threads.
"""

import queue
import threading
import time
from collections.abc import Callable
from typing import Protocol

from edgemeta.daemon.capture.source import Frame, Pixels, SourceError
from edgemeta.daemon.runtime.threads import guarded_thread

GREATEST_HANGING = 3
"""Readers of one source that may hang at once; beyond it the source waits for one of them to return."""


class Capture(Protocol):
    """Something that gives pictures and may block."""

    def read(self) -> Pixels:
        """Give the next picture. Raises SourceError."""
        ...

    def release(self) -> None:
        """Give everything back."""
        ...


class _Reader:
    """One reader thread and what passes from it to the camera thread: frames, or the fault that ended it."""

    def __init__(self, opener: Callable[[], Capture]) -> None:
        self._opener = opener
        self._abandoned = threading.Event()
        self._given: queue.Queue[Frame | BaseException] = queue.Queue(maxsize=1)
        self._thread = guarded_thread("reader", self._run, self._give)
        self._thread.start()

    @property
    def hangs(self) -> bool:
        """Whether the thread still runs."""
        return self._thread.is_alive()

    def take(self, timeout: float) -> Frame | None:
        """Wait for a frame; None where none came in time. Raises what ended the thread."""
        try:
            item = self._given.get(timeout=timeout)
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
                self._give(Frame(pixels, time.monotonic_ns()))
        finally:
            capture.release()

    def _give(self, item: Frame | BaseException) -> None:
        """Hand over; every frame is taken or the reader abandoned, so none is lost uncounted."""
        while not self._abandoned.is_set():
            try:
                self._given.put(item, timeout=0.2)
                return
            except queue.Full:
                continue


class ReaderThread:
    """Reads a capture with a deadline. `name` is how errors call the source."""

    live = True

    def __init__(self, name: str, timeout: float, opener: Callable[[], Capture]) -> None:
        self._name = name
        self._timeout = timeout
        self._opener = opener
        self._reader: _Reader | None = None
        self._left: list[_Reader] = []

    def open(self) -> None:
        """Start a reader. Raises SourceError while too many of the earlier ones hang."""
        self._left = [reader for reader in self._left if reader.hangs]
        if len(self._left) >= GREATEST_HANGING:
            raise SourceError(f"{self._name} hangs in {len(self._left)} readers, waiting for one of them to return")
        self._reader = _Reader(self._opener)

    def read(self) -> Frame:
        """Give the next frame. Raises SourceError at a fault, or when none came within the timeout."""
        if self._reader is None:
            raise SourceError(f"{self._name} is not open")
        frame = self._take(self._reader.take)
        if frame is None:
            raise SourceError(f"{self._name} gave no frame for {self._timeout:g} s")
        return frame

    def _take(self, take: Callable[[float], Frame | None]) -> Frame | None:
        """Wait for a frame; `take` does, for so many seconds. A source that can look into a silence does it here."""
        return take(self._timeout)

    def close(self) -> None:
        """Abandon the reader; it ends by itself when its call returns."""
        if self._reader is not None:
            self._reader.abandon()
            self._left.append(self._reader)
            self._reader = None
