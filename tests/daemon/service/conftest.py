"""A service without a broker whose networks run on a backend that fails as their names say."""

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgemeta.daemon.capture.latest_frames import CapturedFrame
from edgemeta.daemon.inference.pipeline import FrameResult
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.service import Service
from edgemeta.model.file import save
from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, TensorType
from edgemeta.model.self_test import with_self_test
from edgemeta.model.tasks import Classification
from edgemeta.plugins.api import BackendError, Batch, Outputs, Probe
from edgemeta.plugins.reference.backend import BACKEND as REFERENCE
from rig.waiting import wait_until
from tests.daemon.conftest import DEADLINE, Daemon, Subscriber, colour_model

WARM = 10 + 6
"""Runs before a network serves: warm-up and self-test."""


class PlantedSession:
    """The reference's session until its turn to fail has come."""

    def __init__(self, backend: "PlantedBackend", model: Model) -> None:
        self._backend = backend
        self._model = model
        self._session = REFERENCE.compile(model, {})
        self._runs = 0
        self._is_open = True
        backend.open += 1

    def run(self, batch: Batch) -> Outputs:
        assert self._is_open
        self._runs += 1
        kind, _, number = self._model.name.partition("-")
        if kind == "fails" and self._runs > WARM + int(number):
            raise BackendError(f"planted: {self._model.name}")
        if kind == "hangs" and self._runs > WARM + int(number):
            self._backend.hanging.set()
            self._backend.release.wait(60)
        if kind == "slow" and self._runs > WARM:
            time.sleep(int(number) / 1000)
        return self._session.run(batch)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._backend.open -= 1
            self._session.close()


class PlantedBackend:
    """Names say it: `fails-3` fails from its third frame on, `hangs-3` hangs there, `slow-20` takes 20 ms longer,
    `uncompilable` cannot be compiled."""

    name = "planted"

    def __init__(self) -> None:
        self.open = 0
        self.hanging = threading.Event()
        self.release = threading.Event()

    def probe(self) -> Probe:
        return Probe(True, "planted")

    def supports(self, layer: Layer, inputs: Sequence[TensorType]) -> str | None:
        return None

    def compile(self, model: Model, options: Mapping[str, object]) -> PlantedSession:
        if model.name == "uncompilable":
            raise BackendError("planted: cannot be compiled")
        return PlantedSession(self, model)


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlantedBackend]:
    backend = PlantedBackend()
    monkeypatch.setattr("edgemeta.daemon.inference.model_loader.choose", lambda name: backend)
    yield backend
    backend.release.set()


@pytest.fixture
def model_of(tmp_path: Path) -> Callable[..., str]:
    """Writes a model file of that name, and gives its path; `labels` in another order answer otherwise."""

    def write(name: str, labels: tuple[str, ...] = ("red", "green", "blue"), self_test: bool = True) -> str:
        path = tmp_path / f"{name}.safetensors"
        model = with_self_test(replace(colour_model(), name=name, task=Classification(labels)))
        assert model.self_test is not None
        if not self_test:
            wrong = replace(model.self_test, expected=np.zeros_like(model.self_test.expected))
            model = replace(model, self_test=wrong)
        save(model, path)
        return str(path)

    return write


class Running:
    """A running service, its config and the newest result of each camera."""

    def __init__(self, service: Service, write: Callable[..., Path], keys: dict[str, Any]) -> None:
        self.service = service
        self._write = write
        self.keys = keys
        self.newest: dict[str, FrameResult] = {}
        service.parts.worker.frame_listeners.append(self._note)

    def _note(self, captured: CapturedFrame, result: FrameResult) -> None:
        self.newest[captured.camera] = result

    def change(self, **keys: Any) -> Path:
        """Write the config with other keys."""
        return self._write(**(self.keys | keys))

    @property
    def serving(self) -> dict[str, str]:
        """Each camera's model as its newest frame names it."""
        return {name: newest.frame.model.name for name, newest in self.newest.items()}

    def frames(self) -> int:
        return sum(each.processed for each in self.service.parts.counters.values())

    def wait_for_frames(self, count: int) -> None:
        wanted = self.frames() + count
        wait_until(lambda: self.frames() >= wanted, f"{count} more frames")

    def assert_nothing_lost(self) -> None:
        for name, counters in self.service.parts.counters.items():
            assert counters.failed == 0, name


@pytest.fixture
def run_service(
    planted: PlantedBackend, model_of: Callable[..., str], write_config: Callable[..., Path], free_port: Any
) -> Iterator[Callable[..., Running]]:
    """Starts a service that serves the model `old` to its cameras."""
    started: list[Running] = []
    faults: list[BaseException] = []

    def start(**keys: Any) -> Running:
        keys = {
            "model": model_of("old"),
            "cameras": {"front": {"source": "synthetic://", "fps": 200}},
            "mqtt": {"host": "127.0.0.1", "port": free_port()},
            "swap": {"shadow_frames": 5, "trial_frames": 5, "timeout": 20.0},
            "watch_files": False,
            "log": {"level": "warning"},
        } | keys
        service = Service(prepare(write_config(**keys)), faults.append)
        started.append(Running(service, write_config, keys))
        service.start()
        started[-1].wait_for_frames(1)
        return started[-1]

    logging.disable()
    yield start
    logging.disable(logging.NOTSET)
    planted.release.set()
    for running in started:
        running.service.stop(Deadline(5.0))
    assert faults == []
    wait_until(lambda: planted.open == 0, "every session to be closed")


class RealService:
    """`edgemeta run` with a real broker, and what it has said since its start."""

    def __init__(self, daemon: Daemon, subscriber: Subscriber, config: Path) -> None:
        self.daemon = daemon
        self.subscriber = subscriber
        self._config = config

    def swap(self, trigger: str) -> dict[str, Any]:
        """The first swap message with this trigger."""
        return self.subscriber.wait_for(
            "test/swap", lambda message: not message.retained and message.json["trigger"] == trigger
        ).json

    def info(self) -> dict[str, Any]:
        """What runs."""
        self.subscriber.wait_for("test/info", lambda message: not message.retained)
        return self.subscriber.on("test/info")[-1].json

    def wait_for_info(self, condition: Callable[[dict[str, Any]], bool]) -> None:
        """Wait until the newest info message says so."""
        wait_until(lambda: condition(self.info()), "the info message to say so")

    def reload(self) -> None:
        """Have the config read again, and wait until that is done."""
        before = len(self.subscriber.on("test/swap"))
        self.daemon.process.send_signal(signal.SIGHUP)
        self.subscriber.wait("test/swap", before + 1)

    def check(self, exit_code: int, said: str) -> None:
        """What `edgemeta check` says of its config."""
        checked = subprocess.run(
            [str(Path(sys.executable).with_name("edgemeta")), "check", str(self._config)],
            capture_output=True,
            text=True,
        )
        assert checked.returncode == exit_code
        assert said in checked.stderr

    def stop(self) -> None:
        """End it once what it remembers is written."""
        wait_until(self._has_written, "the copies to be written")
        assert self.daemon.stop() == 0

    def _has_written(self) -> bool:
        digests = [model["sha256"] for model in self.info()["models"].values()]
        return "no last good model is kept" in self.daemon.said or all(digest in self.remembered for digest in digests)

    @property
    def remembered(self) -> str:
        """What is written for the next start."""
        index = self._config.parent / "state" / "models-test" / "last-good.json"
        return index.read_text() if index.is_file() else ""


ServiceOf = Callable[..., RealService]


@pytest.fixture
def service_of(
    broker: Any, make_subscriber: Callable[..., Subscriber], write_config: Callable[..., Path], run_daemon: Any
) -> ServiceOf:
    """Starts a service, a new one each time, with the same folder for its state; one that ends is waited for."""

    def start(expected_exit: int | None = None, said: str = "", **keys: Any) -> Any:
        swap = {"shadow_frames": 2, "trial_frames": 2, "model_folder": "."} | keys.pop("swap", {})
        mqtt = {"host": "127.0.0.1", "port": broker.port}
        config = write_config(**{"mqtt": mqtt, "swap": swap, "watch_files": False} | keys)
        if expected_exit is not None:
            daemon = run_daemon(config)
            assert daemon.process.wait(DEADLINE) == expected_exit
            assert said in daemon.said
            return None
        subscriber = make_subscriber(broker.port)
        daemon = run_daemon(config)
        subscriber.wait("front/frame")
        return RealService(daemon, subscriber, config)

    return start
