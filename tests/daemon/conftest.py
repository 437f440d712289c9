"""A real mosquitto, a real subscriber, the service as a process, and a small network whose answers are known."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import cv2
import numpy as np
import paho.mqtt.client as paho
import pytest
import yaml
from paho.mqtt.enums import CallbackAPIVersion

from edgemeta.model.file import save
from edgemeta.model.graph import Model, Preprocessing
from edgemeta.model.layers import AveragePool, Dense, Multiplier, TensorType
from edgemeta.model.tasks import Classification
from edgemeta.model.weights import FixedWeights
from rig.broker import Mosquitto
from rig.camera import NEEDS, RtspCamera
from rig.disk import MountError, SmallDisk
from rig.waiting import free_port as new_port
from rig.waiting import wait_until

DEADLINE = 60.0
"""Seconds after which a test gives up waiting."""


@pytest.fixture(autouse=True)
def log_as_before() -> Iterator[None]:
    """Restore the logging set-up after a test that ran or reloaded a service in this process."""
    log = logging.getLogger("edgemeta")
    handlers, level, propagate = log.handlers, log.level, log.propagate
    yield
    log.handlers, log.propagate = handlers, propagate
    log.setLevel(level)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """A small file system in the folder `disk`."""
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        disk = SmallDisk(folder)
    except MountError as error:
        pytest.skip(f"no file system can be mounted (root in a container that allows it): {error}")
    yield disk
    disk.close()


def broker_keys(broker: Any, **keys: Any) -> dict[str, Any]:
    """Where the broker is, for a config."""
    return {"host": "127.0.0.1", "port": broker.port, "retry": {"initial_delay": 0.1, "max_delay": 0.5}} | keys


def assert_every_frame_accounted_for(frames: list[dict[str, Any]], from_the_first: bool = True) -> None:
    """Before the first and between any two messages exactly those frames are missing that the counts account for."""

    def missing(frame: dict[str, Any]) -> int:
        return int(sum(frame["dropped"].values()) + frame["withheld"])

    if from_the_first:
        assert frames[0]["sequence"] - 1 == missing(frames[0])
    for before, after in pairwise(frames):
        assert after["sequence"] - before["sequence"] - 1 == missing(after) - missing(before)


def metric(page: int, name: str) -> float:
    """A metric of the service with its page on that port, summed over its labels; 0 before the page is there."""
    try:
        with urlopen(f"http://127.0.0.1:{page}/metrics", timeout=DEADLINE) as answer:
            text = answer.read().decode()
    except URLError:
        return 0.0
    return sum(map(float, re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, re.MULTILINE)))


def wait_until_metric(page: int, name: str, value: float) -> None:
    """Wait until a metric of the service with its page on that port reaches a value, summed over its labels."""
    wait_until(lambda: metric(page, name) >= value, f"{name} {value:g}")


@dataclass(frozen=True)
class Received:
    topic: str
    payload: bytes
    retained: bool

    @property
    def json(self) -> dict[str, Any]:
        content = json.loads(self.payload)
        assert isinstance(content, dict)
        return content


class Subscriber:
    """Records everything it receives, in order; reconnects when the broker returns."""

    def __init__(self, port: int, topic: str = "#", **login: str) -> None:
        self.received: list[Received] = []
        self._changed = threading.Condition()
        self._subscribed = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2)
        self._client.reconnect_delay_set(0.05, 0.05)
        if login:
            self._client.username_pw_set(**login)
        self._client.on_connect = lambda client, *_: client.subscribe(topic, qos=1)
        self._client.on_subscribe = lambda *_: self._subscribed.set()
        self._client.on_message = self._on_message
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._subscribed.wait(DEADLINE), "the subscriber could not subscribe"

    def _on_message(self, _client: paho.Client, _userdata: object, message: paho.MQTTMessage) -> None:
        with self._changed:
            self.received.append(Received(message.topic, bytes(message.payload), message.retain))
            self._changed.notify_all()

    def on(self, suffix: str) -> list[Received]:
        """What came so far on topics that end so."""
        return [message for message in list(self.received) if message.topic.endswith(suffix)]

    def wait(self, suffix: str, count: int = 1, timeout: float = DEADLINE) -> list[Received]:
        """Wait until that many messages came on topics that end so."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.on(suffix)) >= count, timeout), (
                f"waited {timeout:g} s for {count} messages on .../{suffix}, got {len(self.on(suffix))}"
            )
        return self.on(suffix)

    def wait_for(self, suffix: str, condition: Callable[[Received], bool], timeout: float = DEADLINE) -> Received:
        """Wait for a message of which something is true, and return the first."""

        def found() -> Received | None:
            return next((message for message in self.on(suffix) if condition(message)), None)

        with self._changed:
            self._changed.wait_for(lambda: found() is not None, timeout)
        message = found()
        assert message is not None, f"waited {timeout:g} s on .../{suffix}, got {[m.payload for m in self.on(suffix)]}"
        return message

    def publish(self, topic: str, payload: bytes, retain: bool = False) -> None:
        """Send a message and wait until the broker has it."""
        self._client.publish(topic, payload, 1, retain).wait_for_publish(DEADLINE)

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()
        self._client.on_message = self._client.on_subscribe = None  # no cycle: `__del__` closes its last sockets


@pytest.fixture
def make_subscriber() -> Iterator[Callable[..., Subscriber]]:
    made: list[Subscriber] = []

    def make(port: int, topic: str = "#", **login: str) -> Subscriber:
        made.append(Subscriber(port, topic, **login))
        return made[-1]

    yield make
    for subscriber in made:
        subscriber.close()


@pytest.fixture
def subscriber(broker: Mosquitto, make_subscriber: Callable[..., Subscriber]) -> Subscriber:
    return make_subscriber(broker.port)


def colour_model() -> Model:
    """Classifies the strongest of red, green and blue in the image's average: 32x32 in, pool, dense, int32 logits."""
    labels = ("red", "green", "blue")
    pixels = TensorType((32, 32, 3), signed=False, scale=1 / 255)
    mean = TensorType((1, 1, 3), signed=False, scale=1 / 255)
    divide = Multiplier(np.array([1], np.int32), np.array([10], np.uint8), 0, 255)
    weights = FixedWeights((16 * np.eye(3)).astype(np.int8), 8, np.array([1.0]))
    return Model(
        name="colour",
        input=pixels,
        layers=(
            AveragePool("pool", "input", mean, kernel=(32, 32), stride=(32, 32), requantize=divide),
            Dense("dense", "pool", TensorType((1, 1, 3), bits=32, scale=1 / 255), weights=weights),
        ),
        outputs=("dense",),
        task=Classification(labels),
        preprocessing=Preprocessing("center", "rgb", np.arange(256, dtype=np.uint8)[np.newaxis]),
    )


@pytest.fixture
def model_file(tmp_path: Path) -> Path:
    """A model file of the colour network."""
    path = tmp_path / "colour.safetensors"
    save(colour_model(), path)
    return path


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    """A folder of three pictures: red, green, blue, in this order."""
    folder = tmp_path / "colours"
    folder.mkdir()
    for number, bgr in enumerate(((0, 0, 255), (0, 255, 0), (255, 0, 0))):
        cv2.imwrite(str(folder / f"{number}.png"), np.full((48, 64, 3), bgr, np.uint8))
    return folder


@pytest.fixture
def write_config(tmp_path: Path, model_file: Path) -> Callable[..., Path]:
    """Writes a config: the given keys over a small one that runs the colour network on the reference backend."""

    def write(**keys: Any) -> Path:
        config: dict[str, Any] = {
            "device": "test",
            "model": str(model_file),
            "backend": {"name": "reference"},
            "cameras": {"front": {"source": "synthetic://", "fps": 30}},
            "stats": {"interval": 0.5},
            "mqtt": {},
            "data_folder": str(tmp_path / "state"),
        }
        config |= keys
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(config))
        return path

    return write


@dataclass
class Daemon:
    """`edgemeta run` as a process."""

    process: subprocess.Popen[str]
    log: Path

    def stop(self, number: int = signal.SIGTERM, timeout: float = DEADLINE) -> int:
        """Send a signal and wait for the end; returns the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop it (SIGSTOP) meanwhile: who subscribes within hears all that it sends at a broker that has come back."""
        self.process.send_signal(signal.SIGSTOP)
        yield
        self.process.send_signal(signal.SIGCONT)

    @property
    def said(self) -> str:
        return self.log.read_text()


def wait_for_line(daemon: Daemon, text: str) -> None:
    deadline = time.monotonic() + DEADLINE
    while text not in daemon.said:
        assert time.monotonic() < deadline, f"waited for {text!r}, the log has:\n{daemon.said}"
        assert daemon.process.poll() is None, daemon.said
        time.sleep(0.01)


@pytest.fixture
def run_daemon(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons; what still runs at the end is killed."""
    started: list[Daemon] = []

    def start(config: Path, **environment: str) -> Daemon:
        log = tmp_path / f"daemon{len(started)}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [str(Path(sys.executable).with_name("edgemeta")), "run", str(config)],
                stdout=output,
                stderr=output,
                text=True,
                env=os.environ | {"XDG_STATE_HOME": str(tmp_path)} | environment,
            )
        started.append(Daemon(process, log))
        return started[-1]

    yield start
    for daemon in started:
        if daemon.process.poll() is None:
            daemon.process.kill()
            daemon.process.wait()


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Returns free loopback ports."""
    return new_port


@pytest.fixture
def rtsp_server() -> Iterator[Callable[[int], RtspCamera]]:
    """Starts RTSP cameras rtsp://127.0.0.1:PORT/cam, each in a process of its own."""
    if not RtspCamera.installed():
        pytest.skip(f"no RTSP server (Debian packages {NEEDS})")
    started: list[RtspCamera] = []

    def start(port: int) -> RtspCamera:
        started.append(RtspCamera(port=port, rate=15))
        started[-1].start()
        return started[-1]

    yield start
    for camera in started:
        camera.kill()
