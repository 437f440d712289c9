"""The log as text, for journald, and as JSON."""

import json
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.runtime.log_setup import JsonFormatter, set_up
from tests.daemon.conftest import wait_for_line

log = logging.getLogger("edgemeta.test")


def claim_journald(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let standard error be what the service manager says that it is.

    For tests, not fixtures: `capfd` opens one file for the set-up of a test and another one for the test.
    """
    status = os.fstat(2)
    monkeypatch.setenv("JOURNAL_STREAM", f"{status.st_dev}:{status.st_ino}")


def test_under_journald_every_line_has_a_priority(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    claim_journald(monkeypatch)
    set_up("warning")
    log.info("quiet")
    log.warning("two\nlines")
    assert capfd.readouterr().err == "<4>two\n<4>lines\n"


def test_elsewhere_lines_have_the_time(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JOURNAL_STREAM", "8:1")  # inherited, but standard error now goes elsewhere
    set_up("info")
    log.info("told", extra={"camera": "front"})
    line = capfd.readouterr().err
    assert line.endswith("INFO    told\n")
    assert math.isclose(datetime.fromisoformat(line[:19]).timestamp(), time.time(), abs_tol=5)


def test_json_is_one_object_per_line_with_the_fields_of_the_call(capfd: pytest.CaptureFixture[str]) -> None:
    set_up("info", "json")
    log.info("camera %s:\n%s", "Tür", "gone", extra={"camera": "Tür", "where": Path("/dev/video0")})
    line = capfd.readouterr().err
    assert line.isascii()
    assert line.count("\n") == 1
    fields = json.loads(line)
    stamp = datetime.fromisoformat(fields.pop("time"))
    assert stamp.utcoffset() is not None
    assert math.isclose(stamp.timestamp(), time.time(), abs_tol=5)
    assert fields == {
        "level": "info",
        "logger": "edgemeta.test",
        "thread": threading.current_thread().name,
        "message": "camera Tür:\ngone",
        "camera": "Tür",
        "where": "/dev/video0",
    }


def test_an_exception_is_a_field(capfd: pytest.CaptureFixture[str]) -> None:
    set_up("info", "json")
    try:
        raise ZeroDivisionError("planted")
    except ZeroDivisionError:
        log.exception("it broke")
    fields = json.loads(capfd.readouterr().err)
    assert (fields["level"], fields["message"]) == ("error", "it broke")
    assert fields["exception"].startswith("Traceback (most recent call last):\n")
    assert fields["exception"].endswith("ZeroDivisionError: planted")


def test_json_has_a_priority_under_journald(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    claim_journald(monkeypatch)
    set_up("info", "json")
    log.warning("told")
    line = capfd.readouterr().err
    assert line.startswith("<4>{")
    assert json.loads(line.removeprefix("<4>"))["message"] == "told"


@given(
    message=st.text(),
    field=st.one_of(
        st.text(), st.floats(allow_nan=False, allow_infinity=False), st.binary(), st.none(), st.lists(st.integers())
    ),
)
def test_every_record_is_one_line_of_json(message: str, field: object) -> None:
    record = log.makeRecord("edgemeta.test", logging.INFO, "file", 1, "%s", (message,), None, extra={"field": field})
    line = JsonFormatter().format(record)
    assert len(line.splitlines()) == 1
    assert json.loads(line)["message"] == message


def test_the_service_logs_json_and_a_reload_changes_the_format(
    run_daemon: Callable[..., Any], write_config: Callable[..., Path], free_port: Callable[[], int]
) -> None:
    """Each line of a whole life, the broker away: JSON until the reload, text after it."""
    config = write_config(mqtt={"host": "127.0.0.1", "port": free_port()}, log={"format": "json"})
    daemon = run_daemon(config)
    wait_for_line(daemon, '"state": "running"')
    wait_for_line(daemon, '"state": "unreachable"')
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"log": {"format": "text"}}))
    daemon.process.send_signal(signal.SIGHUP)
    wait_for_line(daemon, "config reloaded: applied log.format\n")
    assert daemon.stop() == 0
    lines = daemon.said.splitlines()
    reported = [json.loads(line) for line in lines if line.startswith("{")]
    camera = next(fields for fields in reported if fields.get("state") == "running")
    assert (camera["camera"], camera["thread"], camera["reason"]) == ("front", "camera front", None)
    text = lines[len(reported) :]
    assert text[-1].endswith("INFO    stopped")
    assert not any(line.startswith("{") for line in text), "JSON after the reload"
