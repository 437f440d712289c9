"""`edgemeta run` as a process with cameras that go, break and return."""

import shutil
from itertools import groupby
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from tests.daemon.conftest import assert_every_frame_accounted_for, broker_keys


def test_a_camera_that_does_not_exist_leaves_the_others_running(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, tmp_path: Path, colours: Path
) -> None:
    """It is retried, reported once, and starts when the file exists."""
    picture = tmp_path / "later.png"
    retry = {"initial_delay": 0.05, "max_delay": 0.1}
    run_daemon(
        write_config(
            cameras={
                "gone": {"source": str(picture), "retry": retry, "loop": True, "fps": 10},
                "device": {"source": 97, "retry": retry},
                "front": {"source": "synthetic://"},
            },
            mqtt=broker_keys(broker),
        )
    )
    failed = subscriber.wait_for("gone/status", lambda message: message.json["status"] == "failed").json
    assert failed["reason"] == f"{picture} does not exist, expected an image or a folder of images"
    failed = subscriber.wait_for("device/status", lambda message: message.json["status"] == "failed").json
    assert failed["reason"] == "camera /dev/video97 cannot be opened"
    subscriber.wait("front/frame", 10)
    reported = {(message.json["status"], message.json["reason"]) for message in subscriber.on("gone/status")}
    assert len(reported) <= 2  # opening, failed: the same error is reported once, and once more when it lasts
    shutil.copy(colours / "0.png", tmp_path / "half.png")
    (tmp_path / "half.png").rename(picture)
    running = subscriber.wait_for("gone/status", lambda message: message.json["status"] == "running").json
    assert running["failures"] >= 1
    assert running["reason"] is None
    assert subscriber.wait("gone/frame")[0].json["sequence"] == 1


def test_a_source_that_breaks_and_returns(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, colours: Path
) -> None:
    picture = colours / "0.png"
    good = picture.read_bytes()
    run_daemon(
        write_config(
            cameras={
                "front": {
                    "source": str(picture),
                    "loop": True,
                    "fps": 20,
                    "retry": {"initial_delay": 0.1, "max_delay": 0.1},
                }
            },
            mqtt=broker_keys(broker),
        )
    )
    subscriber.wait("front/frame", 3)
    replace(picture, good[:60])
    failed = subscriber.wait_for("front/status", lambda message: message.json["status"] == "failed")
    replace(picture, good)
    subscriber.wait_for(
        "front/status",
        lambda message: message.json["status"] == "running" and message.json["since"] > failed.json["since"],
    )
    subscriber.wait("front/frame", len(subscriber.on("front/frame")) + 5)
    frames = [message.json for message in subscriber.on("front/frame")]
    assert_every_frame_accounted_for(frames)
    statuses = [status for status, _ in groupby(message.json["status"] for message in subscriber.on("front/status"))]
    assert statuses[-3:] == ["running", "failed", "running"]


def replace(path: Path, content: bytes) -> None:
    """Replace a file atomically, so that no reader sees it incomplete."""
    temporary = path.with_name("temporary")
    temporary.write_bytes(content)
    temporary.replace(path)


@pytest.mark.gate("4 s: a camera that dies and returns")
def test_an_rtsp_camera_that_dies_and_returns(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, rtsp_server: Any, free_port: Any
) -> None:
    port = free_port()
    server = rtsp_server(port)
    source = {
        "source": f"rtsp://127.0.0.1:{port}/cam",
        "frame_timeout": 5,
        "retry": {"initial_delay": 0.2, "max_delay": 0.5},
    }
    daemon = run_daemon(write_config(cameras={"front": source}, mqtt=broker_keys(broker)))
    subscriber.wait("front/frame", 10, timeout=60)
    server.kill()
    subscriber.wait_for("front/status", lambda message: message.json["status"] == "failed", timeout=60)
    before = len(subscriber.on("front/frame"))
    rtsp_server(port)
    subscriber.wait("front/frame", before + 10, timeout=60)
    assert_every_frame_accounted_for([message.json for message in subscriber.on("front/frame")])
    assert daemon.stop() == 0  # while frames come: no thread may be torn out of a decoder


def test_frames_of_unusual_kinds(
    broker: Any, subscriber: Any, write_config: Any, run_daemon: Any, tmp_path: Path
) -> None:
    """1x1, gray, sixteen bits, very wide; a truncated JPEG among them is reported and skipped."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    blue = np.full((40, 30, 3), (255, 0, 0), np.uint8)
    cv2.imwrite(str(folder / "1.png"), blue[:1, :1])
    cv2.imwrite(str(folder / "2.png"), np.full((8, 8), 200, np.uint8))
    cv2.imwrite(str(folder / "3.png"), blue.astype(np.uint16) * 257)
    cv2.imwrite(str(folder / "4.jpg"), blue)
    (folder / "4.jpg").write_bytes((folder / "4.jpg").read_bytes()[:200])
    cv2.imwrite(str(folder / "5.png"), np.tile(blue, (1, 100, 1)))
    run_daemon(
        write_config(
            cameras={"front": {"source": str(folder), "fps": 0, "retry": {"initial_delay": 0.05, "max_delay": 0.05}}},
            mqtt=broker_keys(broker),
        )
    )
    failed = subscriber.wait_for("front/status", lambda message: message.json["status"] == "failed")
    assert failed.json["reason"] == f"image {folder / '4.jpg'} is a JPEG truncated after 200 bytes"
    subscriber.wait_for("front/status", lambda message: message.json["status"] == "ended")
    frames = [message.json["labels"] for message in subscriber.wait("front/frame", 4)]
    assert [labels[0]["label"] for labels in frames] == [
        "blue",
        "red",
        "blue",
        "blue",
    ]  # gray is a tie: the first label
    assert frames[1][0]["score"] == frames[1][2]["score"]
