"""Keeps frames of cameras under labels while somebody asks for it.

The thread that classifies frames only leaves a reference here. Another thread encodes and writes; if it is slow, frames
are skipped, and never wait. A request holds for a moment and is renewed: a browser that went away collects nothing.
"""

import contextlib
import math
import queue
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import cv2

from edgemeta.daemon.capture.source import Frame, Pixels
from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.collect.folder import PictureFolder
from edgemeta.daemon.config.collect import CollectConfig
from edgemeta.daemon.runtime.clock import NS, Clock
from edgemeta.daemon.runtime.threads import guarded_thread

HOLDS = 1.5
"""Seconds that a request holds; the page renews it twice a second."""

COUNTS_EVERY = 5.0
"""Seconds after which the folders are counted again: others may add and delete pictures, too."""

WAITING = 4
"""Most frames that wait to be written, for all cameras together."""

QUALITY = 95
"""Of the JPEGs."""

RESERVE = 32_000_000
"""Bytes of the disk that are left free: the outbox needs room, too."""


@dataclass
class Hold:
    """Frames of a camera are kept under a label until a monotonic time.

    taken, handled: frames that were put into the queue and that came out of it. kept, skipped: pictures so far.
    """

    label: str
    until_ns: float
    due_ns: int = 0
    taken: int = 0
    handled: int = 0
    kept: int = 0
    skipped: int = 0
    bytes: int = 0
    problem: str | None = None

    @property
    def active(self) -> bool:
        """Whether frames are being kept."""
        return self.problem is None and time.monotonic_ns() < self.until_ns

    @property
    def waiting(self) -> int:
        """Frames that wait to be written."""
        return self.taken - self.handled


class Collector:
    """Collects frames of some cameras, each into its folder. Any thread may call it.

    limits: read for every picture; they hold for all folders together.
    """

    def __init__(
        self,
        folders: Mapping[str, PictureFolder],
        limits: Callable[[], CollectConfig],
        clock: Clock,
        on_fatal: Callable[[BaseException], None],
    ) -> None:
        self.folders = folders
        self._limits = limits
        self._clock = clock
        self._holds: dict[str, Hold] = {}
        self._requests = threading.Lock()
        self._frames: queue.Queue[tuple[str, Hold, Frame] | None] = queue.Queue(WAITING)
        self._stopping = threading.Event()
        self._used, self._counted = (0, 0), -COUNTS_EVERY
        self._thread = guarded_thread("collector", self._run, on_fatal)

    def start(self) -> None:
        """Start the thread that writes."""
        self._thread.start()

    def stop(self, timeout: float) -> None:
        """Finish the picture in progress; does nothing if it never started."""
        self._stopping.set()
        for hold in self._holds.values():
            hold.until_ns = 0
        if self._thread.is_alive():
            if not self._frames.full():
                self._frames.put_nowait(None)
            self._thread.join(timeout)

    def drain(self, timeout: float) -> None:
        """Write what waits, then stop."""
        with contextlib.suppress(queue.Full):  # the disk is slow: what waits is lost, as when the service stops
            self._frames.put(None, timeout=timeout)
        self._thread.join(timeout)

    def hold(self, camera: str, label: str, first: bool = True, seconds: float = HOLDS) -> Hold:
        """Keep the camera's frames under a label for some seconds from now.

        first: whether this is a new request, rather than one that is renewed. Raises CollectError for an unknown
        camera, an invalid label, another label that is being collected, and for what ended the request before.
        """
        folder = self._folder(camera)
        with self._requests:
            hold = self._holds.get(camera)
            if hold is not None and not first and hold.problem is not None:
                raise CollectError(hold.problem)
            if hold is not None and hold.active:
                if folder.prepare(label) != hold.label:
                    raise CollectError(f"camera {camera} is collecting {hold.label!r} just now")
            else:
                self._counted = -COUNTS_EVERY
                self._check_room(0)
                due_ns = 0 if hold is None else hold.due_ns
                hold = self._holds[camera] = Hold(folder.prepare(label), 0, due_ns)
            hold.until_ns = time.monotonic_ns() + seconds * NS if math.isfinite(seconds) else math.inf
            return hold

    def release(self, camera: str, label: str) -> None:
        """End a request now, if the camera is collecting this label."""
        hold = self._holds.get(camera)
        if hold is not None and hold.label == label.strip():
            hold.until_ns = 0

    def state(self, camera: str) -> Hold | None:
        """Return the last request of a camera; None if there was none."""
        return self._holds.get(camera)

    def is_collecting(self, camera: str) -> bool:
        """Whether frames of a camera are being kept, or the last of them wait to be written."""
        hold = self._holds.get(camera)
        return hold is not None and (hold.active or hold.waiting > 0)

    def offer(self, camera: str, frame: Frame) -> None:
        """Offer a frame, from the thread that has it; takes microseconds."""
        hold = self._holds.get(camera)
        if hold is None or not hold.active or frame.captured_ns < hold.due_ns:
            return
        hold.due_ns = frame.captured_ns + round(NS / self._limits().max_fps)
        hold.taken += 1  # before: the thread that writes may be faster
        try:
            self._frames.put_nowait((camera, hold, frame))
        except queue.Full:
            hold.taken -= 1
            hold.skipped += 1

    def usage(self) -> tuple[int, int]:
        """Return the pictures in all folders, and their bytes. Raises CollectError."""
        sizes = [each.size for folder in self.folders.values() for found in folder.all().values() for each in found]
        return len(sizes), sum(sizes)

    def _folder(self, camera: str) -> PictureFolder:
        if camera not in self.folders:
            raise CollectError(f"found camera {camera!r}, expected one of {', '.join(self.folders)}")
        return self.folders[camera]

    def _run(self) -> None:
        while (item := self._frames.get()) is not None and not self._stopping.is_set():
            camera, hold, frame = item
            try:
                self._keep(camera, hold, frame)
            except CollectError as error:
                hold.problem = str(error)
            hold.handled += 1

    def _keep(self, camera: str, hold: Hold, frame: Frame) -> None:
        """Write one frame. Raises CollectError."""
        if hold.problem is not None:
            return
        jpeg = encode(frame.pixels)
        self._check_room(len(jpeg))
        self.folders[camera].add(hold.label, camera, self._clock.utc(frame.captured_ns), jpeg)
        self._used = self._used[0] + 1, self._used[1] + len(jpeg)
        hold.kept += 1
        hold.bytes += len(jpeg)

    def _check_room(self, size: int) -> None:
        """Raise CollectError if `size` more bytes would exceed a limit, or leave too little of the disk free."""
        limits, now = self._limits(), time.monotonic()
        if now - self._counted >= COUNTS_EVERY:
            self._used, self._counted = self.usage(), now
        pictures, used = self._used
        if pictures >= limits.max_pictures:
            raise CollectError(
                f"{pictures:,} pictures are kept, and `collect.max_pictures` is {limits.max_pictures:,}: "
                "throw some away, or raise it"
            )
        if used + size > limits.max_mb * 1_000_000:
            raise CollectError(
                f"{used / 1e6:.1f} MB of pictures are kept, and `collect.max_mb` is {limits.max_mb:,}: "
                "throw some away, or raise it"
            )
        folder = next(iter(self.folders.values())).folder
        existing = next(each for each in (folder, *folder.parents) if each.exists())
        free = shutil.disk_usage(existing).free
        if free - size < RESERVE:
            raise CollectError(
                f"the disk of {existing} has only {free / 1e6:.1f} MB left, and {RESERVE // 1_000_000} MB stay free "
                "for the service"
            )


def encode(pixels: Pixels) -> bytes:
    """Return a frame [H, W, 3], BGR, as JPEG with full colour resolution."""
    settings = [cv2.IMWRITE_JPEG_QUALITY, QUALITY]
    settings += [cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444]
    done, jpeg = cv2.imencode(".jpg", pixels, settings)
    assert done, "frames of uint8 can be encoded"
    return bytes(jpeg)
