"""The whole demo with its real parts: broker, service process, subscriber."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import cv2
import numpy as np
import pytest
from click.testing import CliRunner
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from edgemeta.cli.demo.pixels import from_page
from edgemeta.cli.demo.run import DemoBroker, Subscriber, run_demo
from edgemeta.cli.demo.service import DemoError, DemoService, write_config
from edgemeta.cli.demo.tally import Tally
from edgemeta.cli.demo.view import QuietView
from edgemeta.cli.main import edgemeta
from edgemeta.daemon.capture.source import SourceError
from edgemeta.daemon.config.source_address import SourceAddress
from edgemeta.model.file import load
from edgemeta.model.tasks import Classification
from edgemeta.model.zoo import DEFAULT, find
from edgemeta.plugins.drawn.show import SCENES
from rig.square_detector import save_square_detector, squares_picture
from rig.waiting import free_port

pytest.importorskip("amqtt", reason="needs amqtt: pip install 'edgemeta[demo]'")

EDGEMETA = [sys.executable, "-c", "from edgemeta.cli.main import main; main()"]

pytest.importorskip("amqtt", reason="needs amqtt: pip install 'edgemeta[demo]'")


def test_json_is_one_object_and_every_frame_is_accounted_for(tmp_path: Path) -> None:
    command = [*EDGEMETA, "demo", "--json", "--seconds", "2", "--source", "synthetic://?scene=0.2"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    result = json.loads(ended.stdout)
    assert result["received"] >= 5  # of 60 on a machine that does nothing else
    assert result["received"] == result["published"]
    assert result["lost"] == 0
    assert result["captured"] == result["published"] + sum(result["dropped"].values())
    if isinstance(load(find(DEFAULT)).task, Classification):
        assert result["received"] == sum(result["labels"].values())
        assert {"airplane", "ship"} <= set(result["recognition"]) <= {scene.label for scene in SCENES}
        assert sum(scene["frames"] for scene in result["recognition"].values()) == result["received"]
    else:
        assert result["recognition"] is None  # drawn scenes have labels that the detection does not
    for stage in ("wait", "preprocess", "inference", "postprocess", "total", "delivered"):
        assert 0 <= result["latency_us"][stage]["p50"] <= result["latency_us"][stage]["p99"]
    assert result["model"]["name"] == DEFAULT
    assert result["availability"] == "offline"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.gate("5 s: the demo for so long")
def test_the_live_page_is_served_while_it_runs(tmp_path: Path) -> None:
    port = free_port()
    command = [*EDGEMETA, "demo", "--json", "--seconds", "0", "--page", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        page = None
        while page is None and process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/state", timeout=60) as answer:
                state = json.load(answer)
                page = state if state["cameras"]["camera"]["frame"] else None
            time.sleep(0.05)
        process.terminate()
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert page is not None
    assert page["info"]["model"]["sha256"] == json.loads(out)["model"]["sha256"]


def test_the_view_gets_the_frames_of_another_source_from_the_page(tmp_path: Path) -> None:
    image, port = tmp_path / "red.png", free_port()
    cv2.imwrite(str(image), np.full((48, 64, 3), (0, 0, 255), np.uint8))
    newest, found = from_page(port), []

    class Looking(QuietView):
        def show(self, tally: Tally, last: bool = False) -> None:
            picture = newest(tally.frame) if tally.frame else None
            if picture is not None:
                found.append(picture)
                raise KeyboardInterrupt

    run_demo(SourceAddress(str(image)), 0, Looking(), port)
    assert found[0].pixels.shape == (48, 64, 3)
    assert found[0].pixels[24, 32, 2] > 200 > found[0].pixels[24, 32, 0]
    assert found[0].objects == []


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = CliRunner().invoke(edgemeta, ["demo", "--page", str(port)])
    assert result.exit_code != 0
    assert str(result.exception) == f"the live page cannot use port {port}: address already in use"


@pytest.mark.gate("8 s: a whole demo")
def test_ctrl_c_ends_it_with_a_summary(tmp_path: Path) -> None:
    with subprocess.Popen(
        [*EDGEMETA, "demo", "--seconds", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # a suite that runs in the background has SIGINT ignored, and its children inherit that
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        watchdog = threading.Timer(240, process.kill)
        watchdog.start()
        assert process.stdout is not None
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
        watchdog.cancel()
    assert first.startswith("frame "), err
    assert (process.returncode, err) == (0, "")
    assert "frame messages in" in out
    assert "events of objects" in out


def test_no_service_outlives_a_killed_demo(tmp_path: Path) -> None:
    command = [*EDGEMETA, "demo", "--seconds", "0"]
    unbuffered = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=unbuffered) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("frame ")
        (service,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text("ascii").split()
        process.kill()
    deadline = time.monotonic() + 60
    arguments = Path(f"/proc/{service}/cmdline")  # empty once it has ended, even if nobody has waited for it yet
    while arguments.exists() and arguments.read_bytes():
        assert time.monotonic() < deadline, "the service goes on without the demo"
        time.sleep(0.05)


def test_a_clip_that_ends_ends_the_demo(tmp_path: Path) -> None:
    clip = tmp_path / "clip.avi"
    writer = cv2.VideoWriter(str(clip), cv2.VideoWriter.fourcc(*"MJPG"), 30, (64, 48))
    for grey in range(12):
        writer.write(np.full((48, 64, 3), 20 * grey, np.uint8))
    writer.release()
    tally = run_demo(SourceAddress(str(clip)), 60, QuietView())
    assert 1 <= tally.frames <= 12
    assert tally.summary()["recognition"] is None
    assert tally.availability == "offline"


@pytest.mark.gate("4 s: two demos")
def test_a_clip_and_a_detection(tmp_path: Path) -> None:
    clip, squares = tmp_path / "clip.avi", {(1, 1): "red", (3, 2): "red", (6, 4): "blue"}
    writer = cv2.VideoWriter(str(clip), cv2.VideoWriter.fourcc(*"MJPG"), 20, (256, 192))
    for _ in range(30):
        writer.write(squares_picture(squares))
    writer.release()
    save_square_detector(tmp_path / "squares.safetensors")
    command = [*EDGEMETA, "demo", "--source", "clip.avi", "--model", "squares.safetensors"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert re.search(r"^frame +\d+  2 red, 1 blue  ", ended.stdout, re.MULTILINE)
    assert re.search(r"^red +\d+ objects$", ended.stdout, re.MULTILINE)
    assert re.search(r"^event +\d+  red \d: begin$", ended.stdout, re.MULTILINE)
    assert "model squares (" in ended.stdout
    missing = subprocess.run(
        [*EDGEMETA, "demo", "--model", "none.safetensors"], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert missing.returncode != 0
    assert "none.safetensors" in missing.stderr
    assert missing.stderr.count("\n") == 1


def test_a_source_that_cannot_be_opened_ends_it_with_the_reason(tmp_path: Path) -> None:
    missing = tmp_path / "nothing.avi"
    with pytest.raises((DemoError, SourceError), match=r"nothing\.avi"):
        run_demo(SourceAddress(str(missing)), 60, QuietView())


def test_an_unknown_scheme_is_an_error_before_anything_starts() -> None:
    with pytest.raises(SourceError, match="gopher"):
        run_demo(SourceAddress("gopher://x"), 1, QuietView())


def test_a_service_that_exits_is_reported_with_the_end_of_its_log(tmp_path: Path) -> None:
    config = write_config(tmp_path, SourceAddress("synthetic://"), "127.0.0.1", 1)
    config.write_text(config.read_text() + "surprise: 1\n")
    with DemoService(config) as service:
        service._process.wait(60)
        with pytest.raises(DemoError, match=r"exit code 78: .*surprise"):
            service.check()


def test_without_amqtt_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "amqtt.broker", None)
    with pytest.raises(DemoError, match=r"pip install 'edgemeta\[demo\]'"), DemoBroker():
        pass


def test_without_rich_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgemeta.cli.demo.command import choose_view

    monkeypatch.delitem(sys.modules, "edgemeta.cli.demo.screen", raising=False)
    monkeypatch.setitem(sys.modules, "rich.console", None)
    with pytest.raises(DemoError, match=r"pip install 'edgemeta\[demo\]'"):
        choose_view(quiet=False, terminal=True, frame_of=lambda _: None)


@pytest.mark.parametrize("seconds", ["-1", "nan", "soon", "86401"])
def test_an_invalid_time_is_a_usage_error(seconds: str) -> None:
    assert CliRunner().invoke(edgemeta, ["demo", "--seconds", seconds]).exit_code == 2


def test_a_message_goes_from_a_publisher_to_the_subscriber() -> None:
    with DemoBroker() as broker, Subscriber(broker.host, broker.port, "a/#") as subscriber:
        publisher = Client(CallbackAPIVersion.VERSION2)
        publisher.connect(broker.host, broker.port)
        publisher.loop_start()
        publisher.publish("a/b", b"hello", qos=1).wait_for_publish(60)
        arrival = subscriber.next(60)
        publisher.disconnect()
        publisher.loop_stop()
    assert arrival is not None
    assert (arrival.topic, arrival.payload) == ("a/b", b"hello")


def test_nothing_listens_and_no_thread_runs_once_it_has_closed() -> None:
    with DemoBroker() as broker, Subscriber(broker.host, broker.port, "#"):
        pass
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((broker.host, broker.port), 5)
    assert "demo-broker" not in [thread.name for thread in threading.enumerate()]


def test_two_brokers_run_side_by_side() -> None:
    with DemoBroker() as one, DemoBroker() as other:
        assert one.port != other.port
