"""A service that gets too little of the processor says so, in every place, and says when that is over."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from edgemeta.daemon.metrics import load
from edgemeta.daemon.runtime.deadline import Deadline
from edgemeta.daemon.service.plan import prepare
from edgemeta.daemon.service.service import Service
from rig.waiting import wait_until
from tests.daemon.conftest import broker_keys

BUSY = 40
"""Threads that take the processor: each holds Python's lock for 5 ms, so a thread that is woken waits for 0.2 s if it
has to wait for all of them: a second may also be a good one, and the service overloaded no more for a while."""


@pytest.mark.gate("5 s: overload is measured over seconds")
def test_overload_is_said_everywhere_until_it_is_over(
    broker: Any,
    subscriber: Any,
    write_config: Callable[..., Path],
    free_port: Callable[[], int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(load, "BEGINS", 2)
    monkeypatch.setattr(load, "WINDOW", 3)
    monkeypatch.setattr(load, "START", 0.0)
    monkeypatch.setattr(load, "PRESSURE", float("inf"))  # what other processes take would never end
    port = free_port()

    def asked(path: str) -> str:
        try:
            with urlopen(f"http://127.0.0.1:{port}/{path}", timeout=60) as answer:
                return str(answer.read().decode())
        except HTTPError as refusal:
            with refusal:
                return refusal.read().decode()

    crashes: list[BaseException] = []
    config = write_config(mqtt=broker_keys(broker), web={"enabled": True, "port": port})
    service = Service(prepare(config), crashes.append)
    service.start()
    end = threading.Event()

    def spin() -> None:
        while not end.is_set():
            pass

    threads = [threading.Thread(target=spin) for _ in range(BUSY)]
    try:
        assert subscriber.wait("info")[-1].json["overloaded"] is None
        wait_until(lambda: asked("readyz").startswith("ready\n"), "readiness")
        for thread in threads:
            thread.start()
        said = subscriber.wait_for("info", lambda message: message.json["overloaded"] is not None).json["overloaded"]
        assert said.startswith("threads are woken ")
        wait_until(lambda: service.parts.snapshot().overloaded, "overload in the snapshot")
        wait_until(
            lambda: str(service.parts.health().overloaded).startswith("threads are woken "), "the same in health"
        )
        assert service.parts.health().hanging_threads == ()
        end.set()
        wait_until(lambda: subscriber.on("info")[-1].json["overloaded"] is None, "its end")
        wait_until(lambda: asked("readyz").startswith("ready\n"), "readiness")
        wait_until(lambda: "edgemeta_overloaded 0.0" in asked("metrics"), "its end in the metrics")
    finally:
        end.set()
        for thread in threads:
            thread.join()
        service.stop(Deadline(5.0))
    assert crashes == []
