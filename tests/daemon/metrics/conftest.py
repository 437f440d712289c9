"""Readings in which every number differs, so that no two can be mistaken for each other, and a real Prometheus."""

import itertools
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
import yaml

from edgemeta.daemon.inference.swap.coordinator import ENDS
from edgemeta.daemon.messages.broker_state import BrokerState
from edgemeta.daemon.messages.records import CameraState, Drops, ModelIdentity
from edgemeta.daemon.messages.stats import (
    BrokerFailures,
    BrokerStats,
    CameraStats,
    DeviceHealth,
    OutboxStats,
    PictureStats,
    Stages,
)
from edgemeta.daemon.metrics.latency import StageLatencies
from edgemeta.daemon.metrics.snapshot import CameraSnapshot, MetricsSnapshot
from edgemeta.daemon.mqtt.flood_control import REASONS


@pytest.fixture
def snapshot() -> MetricsSnapshot:
    numbers = itertools.count(1)
    latencies = StageLatencies()
    for stage in Stages.model_fields:
        for _ in range(next(numbers)):
            latencies.add({stage: 123_456})

    def camera(state: CameraState, last_frame_age: float | None) -> CameraSnapshot:
        return CameraSnapshot(
            counts=CameraStats(
                captured=next(numbers),
                processed=next(numbers),
                published=next(numbers),
                withheld=next(numbers),
                unknown=next(numbers),
                missed=next(numbers),
                pictures=PictureStats(due=next(numbers), published=next(numbers)),
                counts={"person": next(numbers)},
                dropped=Drops(**{reason: next(numbers) for reason in Drops.model_fields}),
            ),
            state=state,
            failures=next(numbers),
            outages=next(numbers),
            runs=next(numbers),
            damaged=next(numbers),
            delay=last_frame_age and last_frame_age / 4,
            last_frame_age=last_frame_age,
            frame_interval=next(numbers) / 8,
            model=ModelIdentity(name='a "quoted"\nname', sha256="ab" * 32),
            backend="cpu",
            listed_labels=("car", "person"),
            appeared={"person": next(numbers), 'a "dog"': next(numbers)},
            events={("state", ""): next(numbers), ("object", "crossed"): next(numbers)},
            shown_name='Tür "West"',
        )

    return MetricsSnapshot(
        device="gate",
        version="1.2.3",
        config_sha256="cd" * 32,
        uptime=86_400.5,
        clock_synchronized=True,
        hanging=next(numbers),
        overloaded=True,
        thread_delay=next(numbers) / 8,
        cameras={"front": camera(CameraState.RUNNING, 12.25), "back": camera(CameraState.FAILED, None)},
        stages=latencies.histograms(),
        broker=BrokerState.UNREACHABLE,
        link=BrokerStats(
            connects=next(numbers),
            published=next(numbers),
            refused=next(numbers),
            failures=BrokerFailures(**{kind: next(numbers) for kind in BrokerFailures.model_fields}),
            last_failure="gone",
        ),
        outbox=OutboxStats(
            place="memory",
            reason="full",
            waiting=next(numbers),
            bytes=next(numbers),
            replayed=next(numbers),
            dropped=next(numbers),
            expired=next(numbers),
            damaged=next(numbers),
            written_bytes=next(numbers),
        ),
        wants_disk=True,
        received_dropped={reason: next(numbers) for reason in REASONS},
        swaps={result.value: next(numbers) for result in ENDS},
        model_refused=True,
        health=DeviceHealth(
            **{name: next(numbers) for name in ("load", "temperature_c", "disk_free_bytes")},
            **{name: 1 / next(numbers) for name in ("cpu", "memory", "disk")},
            throttled=True,
        ),
    )


ALERTS = Path(__file__).parents[3] / "configs" / "prometheus" / "alerts.yaml"


class Prometheus:
    """A real Prometheus that scrapes one address every second, and evaluates the alert rules as often."""

    def __init__(self, folder: Path, port: int, target: str) -> None:
        self._address = f"http://127.0.0.1:{port}"
        config: dict[str, Any] = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(ALERTS)],
            "scrape_configs": [{"job_name": "edgemeta", "static_configs": [{"targets": [target]}]}],
        }
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        command = ["prometheus", f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'tsdb'}"]
        self.process = subprocess.Popen(
            [*command, f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )

    def ask(self, expression: str) -> list[float]:
        """The values of an instant query; none before it answers."""
        try:
            with urlopen(f"{self._address}/api/v1/query?{urlencode({'query': expression})}", timeout=60) as answer:
                return [float(series["value"][1]) for series in json.load(answer)["data"]["result"]]
        except HTTPError as error:
            with error:
                if error.code != HTTPStatus.SERVICE_UNAVAILABLE:
                    raise AssertionError(f"{expression}: {error.read()!r}") from error
            return []
        except OSError:
            return []

    def wait(self, expression: str) -> None:
        deadline = time.monotonic() + 60
        while not self.ask(expression):
            assert time.monotonic() < deadline, f"Prometheus never had {expression}"
            time.sleep(0.1)


@pytest.fixture
def make_prometheus(tmp_path: Path, free_port: Callable[[], int]) -> Iterator[Callable[[str], Prometheus]]:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed (Debian package prometheus)")
    made: list[Prometheus] = []

    def make(target: str) -> Prometheus:
        made.append(Prometheus(tmp_path, free_port(), target))
        return made[-1]

    yield make
    for prometheus in made:
        prometheus.process.kill()
        prometheus.process.wait()
