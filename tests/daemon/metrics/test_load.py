"""When the service counts as overloaded: on seconds that are given, and with threads that take the processor."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgemeta.daemon.metrics import load
from edgemeta.daemon.metrics.load import LoadMonitor, Progress, Second
from edgemeta.daemon.runtime.awake import AWAKE
from rig.waiting import wait_until

FINE = Second(delay=0.002, pressure=0.99, not_taken=0.0)
LATE = Second(delay=0.3, pressure=None, not_taken=0.0)
LAGS = Second(delay=0.002, pressure=0.99, not_taken=0.4)


def unmeasured() -> LoadMonitor:
    """A monitor that is not started."""
    return LoadMonitor(lambda: Progress(0, 0), lambda error: None)


def states(*seconds: Second) -> str:
    """`-` or `!` after each second."""
    monitor = unmeasured()
    found = ""
    for second in seconds:
        monitor.add(second)
        found += "-" if monitor.overloaded is None else "!"
    return found


@pytest.mark.parametrize("bad", [LATE, LAGS, Second(0.0, 0.6, 0.0, is_late=True)])
def test_it_is_overloaded_after_five_starved_seconds_until_hardly_any_is(bad: Second) -> None:
    assert states(*[bad] * 6, *[FINE] * 10) == "----!!" + "!!!!!!!!--"


@pytest.mark.parametrize(
    "fine",
    [
        FINE,
        Second(0.01, 0.4, 0.9),  # the model is slower than the camera, and the processor has time
        Second(0.01, None, 0.9),  # nobody knows whether tasks wait
        Second(0.09, 1.0, 0.05),
    ],
)
def test_load_without_lag_and_lag_without_load_are_not_starvation(fine: Second) -> None:
    assert states(*[fine] * 20) == "-" * 20


def test_the_opening_of_cameras_does_not_count() -> None:
    """Once all run, the seconds from then on do, before START has passed."""
    progress = Progress(0, 0)
    monitor = LoadMonitor(lambda: progress, lambda error: None)
    monitor._judges_at = time.monotonic() + load.START
    for _ in range(6):
        monitor.add(LATE)
    assert monitor.overloaded is None
    progress = Progress(10, 0, all_run=True)
    monitor._began -= 1
    try:
        monitor._beat()
    finally:
        AWAKE.end()  # no thread beats here, and the process would count as asleep
    assert monitor.overloaded is None
    for _ in range(5):
        monitor.add(LATE)
    assert monitor.overloaded is not None


def test_a_moment_is_not_overload() -> None:
    assert states(*[LATE] * 4, *[FINE] * 16) == "-" * 20


def test_the_description_has_what_was_measured() -> None:
    monitor = unmeasured()
    for _ in range(10):
        monitor.add(Second(delay=0.25, pressure=0.5, not_taken=0.125))
    assert monitor.overloaded == (
        "threads are woken 250 ms late, 12% of the frames are not taken, tasks wait for a processor in 50% of the time"
    )


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Threads that never wait for anything."""
    end = threading.Event()

    def spin() -> None:
        while not end.is_set():
            pass

    threads = [threading.Thread(target=spin) for _ in range(count)]
    for thread in threads:
        thread.start()
    yield
    end.set()
    for thread in threads:
        thread.join()


@pytest.mark.gate("4 s: seconds are measured as they pass")
def test_threads_that_take_the_processor_are_noticed() -> None:
    errors: list[BaseException] = []
    monitor = LoadMonitor(lambda: Progress(0, 0), errors.append)
    monitor.start()
    try:
        with busy(60):  # each holds Python's lock for 5 ms
            wait_until(lambda: monitor.is_starved, "starved threads")
            assert monitor.delay > 0.1
        wait_until(lambda: not monitor.is_starved, "threads that run again")
    finally:
        monitor.stop(60)
    assert errors == []


def test_the_total_of_some_tasks_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "cpu"
    monkeypatch.setattr(load, "PRESSURE_FILE", file)
    assert load.cpu_stalled() is None
    file.write_text("some avg10=0.02 avg60=0.00 avg300=0.00 total=12500000\nfull avg10=0.00 avg60=0.00 total=7\n")
    assert load.cpu_stalled() == 12.5


@pytest.mark.skipif(not load.PRESSURE_FILE.exists(), reason="this kernel measures no pressure")
def test_this_machine_has_waited() -> None:
    stalled = load.cpu_stalled()
    assert stalled is not None
    assert stalled >= 0
