"""Frames are kept while a request holds, at a limited rate and within limits; what ends it is one sentence."""

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from edgemeta.daemon.capture.source import Frame
from edgemeta.daemon.collect import collector as module
from edgemeta.daemon.collect.collector import HOLDS, WAITING, Collector, encode
from edgemeta.daemon.collect.errors import CollectError
from edgemeta.daemon.collect.folder import PictureFolder
from edgemeta.daemon.config.collect import CollectConfig
from edgemeta.daemon.runtime.clock import NS, Clock
from rig.disk import SmallDisk
from rig.waiting import wait_until

PIXELS = np.random.default_rng(1).integers(0, 255, (48, 64, 3), np.uint8)
WHOLE = (0.0, 0.0, 1.0, 1.0)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Collector]]:
    made: list[tuple[Collector, list[BaseException]]] = []

    def start(*cameras: str, at: Path = tmp_path / "collected", **limits: object) -> Collector:
        errors: list[BaseException] = []
        config = CollectConfig.model_validate({"max_fps": 30.0} | limits)
        folders = {camera: PictureFolder(at / camera, WHOLE) for camera in cameras or ("front",)}
        collector = Collector(folders, lambda: config, Clock(), errors.append)
        collector.start()
        made.append((collector, errors))
        return collector

    yield start
    for collector, errors in made:
        collector.stop(10.0)
        assert errors == []


def frame(pixels: np.ndarray = PIXELS) -> Frame:
    return Frame(pixels, time.monotonic_ns())


def feed(collector: Collector, condition: Callable[[], bool], camera: str = "front") -> None:
    """Offer frames at 100 per second until something is so."""

    def done() -> bool:
        collector.offer(camera, frame())
        return condition()

    wait_until(done, "frames to be kept")


def test_frames_are_kept_only_while_a_request_holds(make: Callable[..., Collector]) -> None:
    collector = make()
    collector.offer("front", frame())
    hold = collector.hold("front", "open", seconds=60)
    feed(collector, lambda: hold.kept >= 3)
    collector.release("front", "open")
    wait_until(lambda: not collector.is_collecting("front"), "what waits to be written")
    taken = hold.taken
    collector.offer("front", Frame(PIXELS, time.monotonic_ns() + NS))
    assert hold.taken == hold.kept == len(collector.folders["front"].pictures("open")) == taken


def test_a_picture_is_the_frame(make: Callable[..., Collector]) -> None:
    collector = make()
    smooth = cv2.resize(PIXELS, (640, 480), interpolation=cv2.INTER_CUBIC)
    hold = collector.hold("front", "open", seconds=60)
    collector.offer("front", frame(smooth))
    wait_until(lambda: hold.kept == 1, "the picture")
    folder = collector.folders["front"]
    (picture,) = folder.pictures("open")
    read = cv2.imdecode(np.frombuffer(folder.read(picture), np.uint8), cv2.IMREAD_COLOR)
    assert np.abs(read.astype(int) - smooth).mean() < 2


def test_a_request_that_is_not_renewed_ends(make: Callable[..., Collector]) -> None:
    collector = make()
    hold = collector.hold("front", "open", seconds=HOLDS)
    assert hold.active
    wait_until(lambda: not collector.is_collecting("front"), "its end")


def test_the_rate_is_limited_also_over_several_requests(make: Callable[..., Collector]) -> None:
    collector = make(max_fps=10.0)
    began = time.monotonic()
    for number in range(5):
        hold = collector.hold("front", "open" if number % 2 else "closed", seconds=60)
        feed(collector, lambda hold=hold: hold.kept >= 1)
        collector.release("front", hold.label)
    assert time.monotonic() - began >= 0.39


def test_two_labels_at_once_are_refused_the_same_label_is_not(make: Callable[..., Collector]) -> None:
    collector = make("front", "back")
    hold = collector.hold("front", "open", seconds=60)
    assert collector.hold("front", " open", seconds=60) is hold
    with pytest.raises(CollectError, match="camera front is collecting 'open' just now"):
        collector.hold("front", "closed")
    assert collector.hold("back", "closed").label == "closed"
    collector.release("front", "closed")
    assert hold.active
    collector.release("front", "open")
    assert collector.hold("front", "closed").active


def test_an_unknown_camera_and_an_invalid_label(make: Callable[..., Collector]) -> None:
    collector = make("front", "back")
    with pytest.raises(CollectError, match="found camera 'side', expected one of front, back"):
        collector.hold("side", "open")
    with pytest.raises(CollectError, match="found label"):
        collector.hold("front", "..")
    assert collector.state("front") is None


@pytest.mark.parametrize(("limits", "reason"), [({"max_pictures": 3}, "max_pictures"), ({"max_mb": 1}, "max_mb")])
def test_a_full_folder_ends_it_and_nothing_is_thrown_away(
    make: Callable[..., Collector], limits: dict[str, int], reason: str
) -> None:
    """The limits hold for all cameras together. A picture of noise takes 0.3 MB."""
    collector = make("front", "back", **limits)
    noise = np.random.default_rng(2).integers(0, 255, (320, 400, 3), np.uint8)
    hold = collector.hold("front", "open", seconds=60)

    def done() -> bool:
        collector.offer("front", frame(noise))
        return hold.problem is not None

    wait_until(done, "its end")
    assert f"`collect.{reason}`" in str(hold.problem)
    assert hold.kept == 3
    assert len(collector.folders["front"].pictures("open")) == 3
    with pytest.raises(CollectError, match=reason):
        collector.hold("front", "open", first=False)
    collector.folders["front"].discard(collector.folders["front"].pictures("open"))
    assert collector.hold("back", "open").active


def test_the_service_keeps_some_of_the_disk(make: Callable[..., Collector], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RESERVE", 10**18)
    with pytest.raises(CollectError, match=r"has only .* MB left, and .* stay free for the service"):
        make().hold("front", "open")


@pytest.mark.parametrize("how", ["full", "read-only"])
def test_a_disk_that_fails_in_the_middle(
    make: Callable[..., Collector], disk: SmallDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """What was kept is whole; the reason is told; once the disk works again, so does collecting."""
    monkeypatch.setattr(module, "RESERVE", -(10**9))  # the disk itself refuses
    collector = make(at=tmp_path / "disk" / "collected")
    hold = collector.hold("front", "open", seconds=60)
    feed(collector, lambda: hold.kept >= 2)
    (disk.fill if how == "full" else disk.protect)()
    feed(collector, lambda: hold.problem is not None)
    assert ("no space left" if how == "full" else "read-only file system") in str(hold.problem)
    with pytest.raises(CollectError, match=r"no space left|read-only"):
        collector.hold("front", "open", first=False)
    (disk.empty if how == "full" else disk.release)()
    folder = collector.folders["front"]
    assert len(folder.pictures("open")) == hold.kept
    assert all(cv2.imdecode(np.frombuffer(folder.read(p), np.uint8), 1) is not None for p in folder.pictures("open"))
    assert [path.name for path in (folder.folder / "open").iterdir() if path.suffix == ".part"] == []
    again = collector.hold("front", "open", seconds=60)
    feed(collector, lambda: again.kept >= 1)


def test_a_slow_disk_delays_no_frame(make: Callable[..., Collector], monkeypatch: pytest.MonkeyPatch) -> None:
    """While a picture is being written, frames are taken at once: at most WAITING wait, the others are skipped."""
    writing = threading.Event()
    monkeypatch.setattr(PictureFolder, "add", lambda *_: writing.wait(60))
    collector = make()
    hold = collector.hold("front", "open", seconds=60)
    longest = 0.0
    for number in range(WAITING + 10):
        captured = Frame(PIXELS, time.monotonic_ns() + number * NS)
        began = time.thread_time()
        collector.offer("front", captured)
        longest = max(longest, time.thread_time() - began)
    assert hold.skipped >= 8
    assert hold.waiting == WAITING + 10 - hold.skipped
    assert longest < 0.01
    collector.release("front", "open")
    assert collector.is_collecting("front")
    writing.set()
    wait_until(lambda: hold.waiting == 0, "the last picture")
    assert not collector.is_collecting("front")
    assert hold.kept == WAITING + 10 - hold.skipped


def test_every_size_of_frame_is_encoded() -> None:
    for height, width in ((1, 1), (3, 5), (2160, 3840)):
        pixels = np.zeros((height, width, 3), np.uint8)
        assert cv2.imdecode(np.frombuffer(encode(pixels), np.uint8), cv2.IMREAD_COLOR).shape == pixels.shape
