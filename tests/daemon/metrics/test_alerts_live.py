"""The alert rules in a real Prometheus that scrapes the real service."""

import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from tests.daemon.metrics.conftest import ALERTS, Prometheus

HOURS_BEHIND = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *now) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, now);
  if (!failed && clock == CLOCK_REALTIME) now->tv_sec -= 7200;
  return failed;
}
"""
"""Loaded before the C library it sets the wall clock of one process two hours back; the monotonic clock stays."""


def firing(alert: str) -> str:
    """What Prometheus says of an alert that is pending or fires."""
    return f'ALERTS{{alertname="{alert}"}}'


def expression(alert: str) -> str:
    """A rule's own query: it answers at once, while `ALERTS` waits for the next evaluation."""
    (group,) = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]
    (found,) = (rule["expr"] for rule in group["rules"] if rule["alert"] == alert)
    assert isinstance(found, str)
    return found


@pytest.fixture
def two_hours_behind(tmp_path: Path) -> dict[str, str]:
    """What to add to a process's environment so that its wall clock is two hours behind."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (Debian package g++)")
    library = tmp_path / "behind.so"
    command = [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-ldl"]
    subprocess.run(command, input=HOURS_BEHIND, text=True, check=True)
    return {"LD_PRELOAD": str(library)}


@pytest.fixture
def watched(
    broker: Any,
    write_config: Callable[..., Path],
    run_daemon: Callable[..., Any],
    free_port: Callable[[], int],
    make_prometheus: Callable[[str], Prometheus],
    colours: Path,
) -> Callable[..., tuple[Prometheus, int]]:
    """Starts a service with one camera, and a Prometheus that scrapes it; gives this and the page's port."""

    def start(**environment: str) -> tuple[Prometheus, int]:
        port = free_port()
        retry = {"initial_delay": 0.05, "max_delay": 0.1}
        camera = {"source": str(colours / "0.png"), "fps": 20, "loop": True, "retry": retry}
        mqtt = {"host": "127.0.0.1", "port": broker.port}
        run_daemon(
            write_config(cameras={"front": camera}, mqtt=mqtt, web={"enabled": True, "port": port}), **environment
        )
        return make_prometheus(f"127.0.0.1:{port}"), port

    return start


@pytest.mark.gate("10 s of scrapes")
def test_frames_that_flow_are_not_silent_where_the_clock_is_two_hours_behind(
    watched: Callable[..., tuple[Prometheus, int]], two_hours_behind: dict[str, str]
) -> None:
    prometheus, port = watched(**two_hours_behind)
    prometheus.wait("count_over_time(edgemeta_camera_last_frame_age_seconds[1m]) >= 5")
    with urlopen(f"http://127.0.0.1:{port}/api/state", timeout=60) as answer:
        reported = datetime.fromisoformat(json.load(answer)["time"].replace("Z", "+00:00"))
    assert 7000 < (datetime.now(timezone.utc) - reported).total_seconds() < 7400, "the clock is not behind"
    assert prometheus.ask(expression("EdgemetaCameraSilent")) == []
    assert prometheus.ask(firing("EdgemetaCameraSilent")) == []
    (age,) = prometheus.ask("edgemeta_camera_last_frame_age_seconds")
    (uptime,) = prometheus.ask("edgemeta_uptime_seconds")
    assert 0 <= age < 60
    assert 0 < uptime < 600


@pytest.mark.gate("12 s: three outages one after the other")
def test_three_outages_make_an_unstable_camera_but_not_one_with_many_attempts(
    watched: Callable[..., tuple[Prometheus, int]], colours: Path
) -> None:
    prometheus, _ = watched()
    frame, aside = colours / "0.png", colours / "aside.png"

    def outage(number: int, tries: int) -> None:
        frame.rename(aside)
        prometheus.wait(f"edgemeta_camera_failures_total >= {tries} and edgemeta_camera_outages_total == {number}")
        aside.rename(frame)
        prometheus.wait('edgemeta_camera_state{state="running"} == 1')

    prometheus.wait('edgemeta_camera_state{state="running"} == 1')
    outage(1, tries=20)
    assert prometheus.ask(expression("EdgemetaCameraUnsteady")) == []
    assert prometheus.ask(firing("EdgemetaCameraUnsteady")) == []
    outage(2, tries=21)
    outage(3, tries=22)
    prometheus.wait(firing("EdgemetaCameraUnsteady"))
