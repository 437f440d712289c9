"""Collects without the service: the camera is opened as the service opens it, with its region, rate limit, motion."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgemeta.daemon.capture.camera import Camera, CameraStatus
from edgemeta.daemon.capture.source import SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.collect.collection import picture_folders, region_of
from edgemeta.daemon.collect.collector import Collector
from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.collect.folder import PictureFolder
from edgemeta.daemon.config.config import Config
from edgemeta.daemon.messages.records import CameraState
from edgemeta.daemon.runtime.clock import Clock

LOOKS_EVERY = 0.1
ENDS_WITHIN = 1.0

OnProgress = Callable[[int, float], None]
"""Called with the pictures that are kept so far, and the seconds since the first request."""


@dataclass(frozen=True)
class Collected:
    """What was collected. folder: where the labels are. ended: why it ended before its time, None if it did not."""

    label: str
    kept: int
    skipped: int
    folder: Path
    ended: str | None
    clip_ended: bool = False


def collect_directly(
    config: Config, camera: str, label: str, seconds: float, out: Path | None, on_progress: OnProgress
) -> Collected:
    """Keep a camera's frames under a label for some seconds, or until its clip ends; KeyboardInterrupt ends it, too.

    out: the folder of the labels; None is that of the config. Raises CollectError if nothing could be kept.
    """
    keys = config.cameras[camera]
    folders = picture_folders(config) if out is None else {camera: PictureFolder(out, region_of(keys.region))}
    errors: list[BaseException] = []
    collector = Collector(folders, lambda: config.collect, Clock(), errors.append)
    hold = collector.hold(camera, label, seconds=float("inf"))
    changed = threading.Event()
    status: list[CameraStatus] = []

    def on_status(_camera: str, new: CameraStatus) -> None:
        status.append(new)
        changed.set()

    try:
        source = make_source(SourceSpec.of(keys))
    except SourceError as error:
        raise CollectError(f"camera {camera}: {error}") from error
    opened = Camera(camera, keys, source, collector.offer, on_status, errors.append)
    ended = None
    collector.start()
    opened.start()
    try:
        began = time.monotonic()
        while ended is None and (lasting := time.monotonic() - began) < seconds:
            on_progress(hold.kept, lasting)
            changed.wait(LOOKS_EVERY)
            changed.clear()
            if errors:
                raise errors[0]
            ended = hold.problem or _end_of(camera, status[-1])
    except KeyboardInterrupt:
        ended = "interrupted"
    finally:
        opened.stop()
        collector.drain(ENDS_WITHIN)
        opened.join(ENDS_WITHIN)
    ended = hold.problem or ended
    if hold.kept == 0:
        raise CollectError(ended or f"camera {camera} delivered no frame within {seconds:g} s")
    is_clip = bool(status) and any(each.state is CameraState.ENDED for each in status)
    return Collected(hold.label, hold.kept, hold.skipped, folders[camera].folder, ended, is_clip and not hold.problem)


def _end_of(camera: str, status: CameraStatus) -> str | None:
    if status.state is CameraState.FAILED:
        return f"camera {camera}: {status.reason}"
    if status.state is CameraState.DISABLED:
        return f"camera {camera}: it is disabled by the config"
    return f"camera {camera}: its clip has ended" if status.state is CameraState.ENDED else None
