"""Pictures of a camera's second stream, for what is published, while its first one is classified.

The second stream is open as long as pictures are published, as to open it takes longer than many people stay in view.
Its process keeps the encoded packets since the last key frame and decodes them when asked, so a picture costs what it
takes to decode it, and nothing is decoded while nobody asks.
"""

import logging
import threading
from collections.abc import Callable

from edgemeta.daemon.capture.reshape import steps_of
from edgemeta.daemon.capture.retry import RetryDelays
from edgemeta.daemon.capture.source import OnDemandSource, Pixels, SourceError, SourceWaiting
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.runtime.threads import guarded_thread

log = logging.getLogger(__name__)

LOOKS_EVERY = 0.5
"""Seconds between two looks whether the stream has ended while nobody asks."""

MOST_WAITING = 8
"""Pictures asked for at one time."""

Receiver = Callable[[Pixels | None], None]
"""Takes a picture [H, W, 3], BGR, as `steps_of` leaves it; None where there is none."""


class LargePictures:
    """One camera's second stream, read in a thread of its own from `start` on."""

    def __init__(
        self, name: str, config: CameraConfig, source: OnDemandSource, on_fatal: Callable[[BaseException], None]
    ) -> None:
        self._name = name
        self._source = source
        self._steps = steps_of(config)
        self._delays = RetryDelays(config.retry)
        self._waiting: list[Receiver] = []
        self._lock = threading.Lock()
        self._asked, self._stopping = threading.Event(), threading.Event()
        self._is_open = False
        self._problem: str | None = None
        self._thread = guarded_thread(f"pictures {name}", self._run, on_fatal)
        self._started = False

    def start(self) -> None:
        """Open the stream, unless that was begun before. One thread calls this and `ask`."""
        if not self._started:
            self._started = True
            self._thread.start()

    def ask(self, receiver: Receiver) -> bool:
        """Have a receiver called, in the thread of these pictures, with the next one; False where no stream is open."""
        with self._lock:
            if not self._is_open or len(self._waiting) >= MOST_WAITING:
                return False
            self._waiting.append(receiver)
            self._asked.set()
            return True

    def stop(self) -> None:
        """Have the thread end."""
        self._stopping.set()
        self._asked.set()

    def _run(self) -> None:
        while not self._stopping.is_set():
            delay = 0.0
            try:
                self._source.open()
                self._serve()
            except SourceError as error:
                if str(error) != self._problem:
                    self._problem = str(error)
                    log.warning("camera %s: pictures: %s", self._name, error, extra={"camera": self._name})
                delay = self._delays.after(error.retry, ran=False)
            finally:
                self._close()
            self._stopping.wait(delay)

    def _serve(self) -> None:
        """Answer questions until stopping. Raises SourceError."""
        self._source.open_stream()
        with self._lock:
            self._is_open = True
        while not self._stopping.is_set():
            try:
                if not self._asked.wait(LOOKS_EVERY):
                    self._source.look()
                    continue
                pixels = None if self._stopping.is_set() else self._source.read().pixels
            except SourceWaiting:
                continue
            self._answer(pixels)
            self._problem = None
            self._delays.reset()

    def _answer(self, pixels: Pixels | None) -> None:
        for step in self._steps if pixels is not None else ():
            assert pixels is not None
            pixels = step(pixels)
        with self._lock:
            waiting, self._waiting = self._waiting, []
            self._asked.clear()
        for receive in waiting:
            receive(pixels)

    def _close(self) -> None:
        """Close the stream; who waits gets none."""
        with self._lock:
            self._is_open = False
        self._source.close()
        self._answer(None)
