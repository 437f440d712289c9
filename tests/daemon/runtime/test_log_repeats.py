"""Identical log lines are written once and counted; all others are written."""

import io
import json
import logging
import threading
from collections.abc import Iterator

import pytest

from edgemeta.daemon.runtime import log_repeats
from edgemeta.daemon.runtime.log_repeats import LONGEST, REMEMBERED, RepeatsHandler
from edgemeta.daemon.runtime.log_setup import JsonFormatter
from rig.waiting import wait_until


class Log:
    """A logger of its own with the handler, and what it wrote."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.handler = RepeatsHandler(self.stream)
        self.handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(message)s"))
        self.logger = logging.Logger("a", logging.DEBUG)
        self.logger.addHandler(self.handler)

    @property
    def lines(self) -> list[str]:
        return self.stream.getvalue().splitlines()


@pytest.fixture
def log() -> Iterator[Log]:
    made = Log()
    yield made
    made.handler.close()


def test_the_first_is_written_at_once_and_the_rest_are_counted(log: Log) -> None:
    for _ in range(1000):
        log.logger.warning("disk %s", "full")
    assert log.lines == ["WARNING a disk full"]
    log.handler.write_counts()
    assert log.lines == ["WARNING a disk full", "WARNING a repeated 999 times within 1 s: disk full"]


def test_lines_that_differ_are_written(log: Log) -> None:
    log.logger.warning("camera %s failed", "a")
    log.logger.warning("camera %s failed", "b")
    log.logger.error("camera %s failed", "a")
    log.logger.warning("camera a failed")  # the same words
    other = logging.Logger("b", logging.DEBUG)
    other.addHandler(log.handler)
    other.warning("camera %s failed", "a")
    assert log.lines == [
        "WARNING a camera a failed",
        "WARNING a camera b failed",
        "ERROR a camera a failed",
        "WARNING b camera a failed",
    ]


def test_tracebacks_and_long_lines_are_always_written(log: Log) -> None:
    for _ in range(2):
        try:
            raise ZeroDivisionError("planted")
        except ZeroDivisionError:
            log.logger.exception("it broke")
        log.logger.info("x" * (LONGEST + 1))
    assert log.stream.getvalue().count("ZeroDivisionError: planted") == 2
    assert log.stream.getvalue().count("x" * (LONGEST + 1)) == 2


def test_counts_are_written_although_nothing_is_logged(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_repeats, "WINDOW", 0.05)
    for _ in range(3):
        log.logger.info("same")
    wait_until(lambda: len(log.lines) == 2, "the number")
    assert log.lines[1] == "INFO a repeated 2 times within 1 s: same"
    log.logger.info("same")  # goes on: the next window
    wait_until(lambda: len(log.lines) >= 3, "the next line")
    assert log.lines[2] in ("INFO a repeated once within 1 s: same", "INFO a same")


def test_after_a_window_without_repetitions_a_line_is_written_again(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_repeats, "WINDOW", 0.0)
    log.logger.info("same")
    log.logger.info("same")
    assert log.lines == ["INFO a same"] * 2


def test_the_number_of_remembered_lines_is_limited_and_their_counts_are_written(log: Log) -> None:
    log.logger.info("first")
    log.logger.info("first")
    for number in range(10 * REMEMBERED):
        log.logger.info("line %d", number)
    assert len(log.handler._lines) == REMEMBERED
    assert log.lines[REMEMBERED + 1] == "INFO a repeated once within 1 s: first"
    assert len(log.lines) == 10 * REMEMBERED + 2


def test_arguments_are_not_kept(log: Log) -> None:
    log.logger.info("%s", bytearray(10))
    (line,) = log.handler._lines.values()
    assert line.record.args is None


def test_the_count_is_a_field_of_json(log: Log) -> None:
    log.handler.setFormatter(JsonFormatter())
    for _ in range(3):
        log.logger.warning("camera %s", "front", extra={"camera": "front"})
    log.handler.close()
    first, second = (json.loads(line) for line in log.lines)
    assert (first["message"], first["camera"], "repeated" in first) == ("camera front", "front", False)
    assert (second["message"], second["camera"]) == ("repeated 2 times within 1 s: camera front", "front")
    assert (second["level"], second["logger"], second["repeated"]) == ("warning", "a", 2)
    assert second["time"] >= first["time"]


def test_a_wrong_logging_call_is_not_fatal(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    log.logger.info("%d", "no number")
    log.logger.info("after")
    assert log.lines == ["INFO a after"]


def test_many_threads_lose_no_count(log: Log) -> None:
    threads = [threading.Thread(target=lambda: [log.logger.info("same") for _ in range(500)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.handler.write_counts()
    assert log.lines == ["INFO a same", f"INFO a repeated 1999 times within {log.lines[1].split()[6]} s: same"]
