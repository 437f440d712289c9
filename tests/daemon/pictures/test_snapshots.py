"""Pictures at a real broker: how often, how large, of what, retained or not, and dropped while it is away."""

import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from edgemeta.daemon.capture.source import Pixels
from rig.square_detector import save_square_detector, squares_picture, write_squares
from rig.waiting import wait_until
from tests.daemon.conftest import broker_keys

CELL = 64
"""Pixels of a square's side."""


def decoded(jpeg: bytes) -> Pixels:
    pixels = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    return np.asarray(pixels, np.uint8)


@pytest.fixture
def noise(tmp_path: Path) -> dict[str, Any]:
    """A camera whose picture takes many bytes as JPEG."""
    pixels = np.random.default_rng(0).integers(0, 256, (240, 320, 3)).astype(np.uint8)
    cv2.imwrite(str(tmp_path / "noise.png"), pixels)
    return {"source": str(tmp_path / "noise.png"), "fps": 20, "loop": True}


@pytest.mark.gate("3 s: a service with a broker")
def test_pictures_come_at_their_interval_and_are_retained_where_the_config_says_so(
    broker: Any, subscriber: Any, make_subscriber: Any, write_config: Any, run_daemon: Any, noise: dict[str, Any]
) -> None:
    """Front every 0.4 s and retained; back by its own section: none. Off means off."""
    run_daemon(
        write_config(
            mqtt=broker_keys(broker),
            cameras={"front": noise, "back": noise | {"snapshots": {}}},
            snapshots={"interval": 0.4, "retain": True, "max_side": 160, "max_bytes": 9000},
        )
    )
    frames = len(subscriber.wait("front/frame", 30))
    pictures = subscriber.wait("front/snapshot", 3)
    assert frames >= 30
    assert subscriber.on("back/snapshot") == subscriber.on("front/crop") == []
    for picture in pictures:
        assert len(picture.payload) <= 9000
        assert decoded(picture.payload).shape == (120, 160, 3)
    later = make_subscriber(broker.port)
    assert later.wait("front/snapshot")[0].retained
    stats = subscriber.wait_for("stats", lambda message: message.json["cameras"]["front"]["pictures"]["published"] >= 3)
    counted = stats.json["cameras"]["front"]["pictures"]
    assert counted["due"] - counted["published"] <= 2
    assert stats.json["cameras"]["back"]["pictures"] == {"due": 0, "published": 0}


def test_a_picture_is_no_larger_than_the_broker_takes(
    make_broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any, noise: dict[str, Any]
) -> None:
    broker = make_broker("allow_anonymous true", "max_packet_size 8000")
    broker.start()
    subscriber = make_subscriber(broker.port)
    daemon = run_daemon(
        write_config(
            mqtt=broker_keys(broker), cameras={"front": noise}, snapshots={"interval": 0.2, "max_bytes": 90000}
        )
    )
    for picture in subscriber.wait("front/snapshot", 2):
        assert 2000 < len(picture.payload) < 8000
        assert decoded(picture.payload).ndim == 3
    stats = subscriber.wait_for("stats", lambda message: message.json["cameras"]["front"]["pictures"]["published"] >= 2)
    assert stats.json["broker"]["refused"] == 0
    assert "larger than" not in daemon.said


def test_a_picture_that_fits_at_no_size_is_left_out_and_that_is_said_once(
    make_broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any, noise: dict[str, Any]
) -> None:
    broker = make_broker("allow_anonymous true", "max_packet_size 700")
    broker.start()
    keys = {"mqtt": broker_keys(broker), "cameras": {"front": noise}, "snapshots": {"interval": 0.2}}
    subscriber = make_subscriber(broker.port)
    daemon = run_daemon(write_config(**keys))
    said = "pictures on edgemeta/test/front/snapshot are left out: they have more than"
    wait_until(lambda: said in daemon.said, "the line about it")
    time.sleep(0.7)
    assert daemon.said.count(said) == 1
    assert subscriber.on("front/snapshot") == []


@pytest.mark.gate("3 s: a service with a broker")
def test_pictures_of_an_outage_are_dropped_and_frames_are_not(
    broker: Any, make_subscriber: Any, write_config: Any, run_daemon: Any, noise: dict[str, Any]
) -> None:
    daemon = run_daemon(write_config(mqtt=broker_keys(broker), cameras={"front": noise}, snapshots={"interval": 0.2}))
    make_subscriber(broker.port).wait("front/snapshot", 2)
    broker.stop()
    time.sleep(1.0)
    with daemon.paused():
        broker.start()
        subscriber = make_subscriber(broker.port)
    subscriber.wait_for("front/frame", lambda message: message.json["historical"])
    stats = subscriber.wait_for("stats", lambda message: message.json["broker"]["connects"] == 2)
    counted = stats.json["cameras"]["front"]["pictures"]
    assert counted["due"] - counted["published"] >= 3
    dropped = subscriber.on("front/frame")[-1].json["dropped"]
    assert sum(dropped.values()) == dropped["superseded"], "a busy machine supersedes some"


def test_an_event_s_picture_shows_its_best_object(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, tmp_path: Path
) -> None:
    """Nothing, a red square, nothing: the crops of its begin and its end are red but for their borders.

    The boxes are drawn into the whole picture.
    """
    save_square_detector(tmp_path / "squares.safetensors")
    folder = tmp_path / "scenes"
    folder.mkdir()
    for number in range(60):
        scene = {(5, 3): "red"} if 10 <= number < 35 else {}
        cv2.imwrite(str(folder / f"{number:02}.png"), squares_picture(scene, CELL))
    run_daemon(
        write_config(
            model="squares.safetensors",
            mqtt=broker_keys(broker),
            cameras={"yard": {"source": str(folder), "fps": 20}},
            snapshots={"interval": 0.2, "events": True, "boxes": True},
            tracking={"max_gap": 0.8},
        )
    )
    crops = subscriber.wait("yard/crop", 2)
    subscriber.wait("yard/event", 2)
    assert [message.json["change"] for message in subscriber.on("yard/event")] == ["begin", "end"]
    for crop in crops:
        pixels = decoded(crop.payload).astype(int)
        middle = pixels[pixels.shape[0] // 2, pixels.shape[1] // 2]
        assert middle[2] > 200
        assert max(middle[:2]) < 60
        assert pixels.shape[0] < 2 * CELL

    def green() -> list[bool]:
        drawn = (decoded(picture.payload).astype(int) for picture in subscriber.on("yard/snapshot"))
        return [bool(((each[..., 1] > 150) & (each[..., 2] < 130)).any()) for each in drawn]

    wait_until(lambda: not green()[-1], "a picture without a box")
    assert True in green()


@pytest.fixture
def large_picture() -> Iterator[str]:
    """The snapshot address of a camera that shows the same view in blue, with twice as many rows as `squares_picture`.

    A corner of it is white.
    """
    pixels = squares_picture({(5, 3): "red"}, 2 * CELL)[..., ::-1].copy()
    pixels[:40, :40] = 255
    jpeg = cv2.imencode(".jpg", pixels)[1].tobytes()

    class Camera(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "image/jpeg")
            self.send_header("Content-Length", str(len(jpeg)))
            self.end_headers()
            self.wfile.write(jpeg)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Camera)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/large.jpg"
    server.shutdown()
    server.server_close()


@pytest.mark.gate("6 s: a service with a broker, and a stream that opens")
def test_pictures_come_from_the_large_stream_where_there_is_one(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, tmp_path: Path, large_picture: str
) -> None:
    """Red squares are classified, blue ones published, twice as large; masks hold for both."""
    save_square_detector(tmp_path / "squares.safetensors")
    picture = write_squares(tmp_path / "scene.png", {}, CELL)
    yard = {"source": str(picture), "loop": True, "fps": 20, "snapshot_source": large_picture}
    mask = {"privacy_masks": [[[0, 0], [0.1, 0], [0.1, 0.1], [0, 0.1]]]}
    run_daemon(
        write_config(
            model="squares.safetensors",
            mqtt=broker_keys(broker),
            cameras={"yard": yard | mask},
            snapshots={"interval": 0.5, "events": True, "boxes": True, "max_side": 4000},
        )
    )
    large = squares_picture({}, 2 * CELL).shape
    subscriber.wait_for("yard/snapshot", lambda message: decoded(message.payload).shape == large)
    write_squares(picture, {(5, 3): "red"}, CELL)
    pixels = decoded(subscriber.wait("yard/crop")[0].payload).astype(int)
    middle = pixels[pixels.shape[0] // 2, pixels.shape[1] // 2]
    assert middle[0] > 200
    assert max(middle[1:]) < 60
    assert 2 * CELL < pixels.shape[0] < 4 * CELL
    whole = decoded(subscriber.on("yard/snapshot")[-1].payload).astype(int)
    assert whole.shape == large
    assert whole[20, 20].max() < 60


@pytest.mark.gate("3 s: a service with a broker")
def test_a_reload_switches_pictures_on_and_off(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, noise: dict[str, Any]
) -> None:
    keys = {"mqtt": broker_keys(broker), "cameras": {"front": noise}}
    run_daemon(write_config(**keys))
    subscriber.wait("front/frame", 5)
    assert subscriber.on("front/snapshot") == []
    write_config(**keys, snapshots={"events": True, "interval": 0.2})
    assert decoded(subscriber.wait("front/snapshot")[0].payload).shape == (240, 320, 3)
