"""Whether the service gets enough of the processor: measured by a thread that says when it is woken, and by its queue.

A second is starved if this thread was woken late, or if tasks of the machine wait for a processor while frames are not
taken in time. The service is overloaded when half of the last seconds were, and until hardly any was.
"""

import re
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from edgemeta.daemon.runtime.awake import AWAKE, BEAT
from edgemeta.daemon.runtime.periodic import Periodic

DELAYED = 0.1
"""Seconds by which a thread is woken late on average, from which on a second is starved. A machine with ten busy tasks
per processor wakes it within 0.01 s."""

PRESSURE = 0.5
"""Part of a second in which tasks wait for a processor, and part of the frames that are not taken in it, from which on
it is starved."""
NOT_TAKEN = 0.1

START = 15.0
"""Seconds after the start in which nothing counts as overload, unless all cameras run before: to open them takes
time."""

WINDOW = 10
"""Seconds that are looked at."""

BEGINS, ENDS = 5, 1
"""Starved ones among them, from which on and down to which the service is overloaded, and is not any more."""

RATE = 0.25
"""How much a second counts for deadlines while the service is overloaded."""

PRESSURE_FILE = Path("/proc/pressure/cpu")
"""Absent where the kernel does not measure it."""
MICROSECONDS = 1_000_000


@dataclass(frozen=True)
class Progress:
    """Frames since the start.

    due: those that cameras gave or should have given; not_taken: those of them that were replaced or left out because
    nobody took them; is_late: whether a camera's pictures arrive late now. all_run: whether every camera has given a
    frame.
    """

    due: int
    not_taken: int
    is_late: bool = False
    all_run: bool = False


@dataclass(frozen=True)
class Second:
    """What was measured in one second.

    delay: seconds by which the thread was woken late, on average; pressure: part of it in which tasks waited, None
    where the kernel does not say; not_taken: part of the frames; is_late as in `Progress`.
    """

    delay: float
    pressure: float | None
    not_taken: float
    is_late: bool = False

    @property
    def is_starved(self) -> bool:
        """Whether the service had too little of the processor."""
        lags = self.not_taken >= NOT_TAKEN or self.is_late
        return self.delay >= DELAYED or (lags and self.pressure is not None and self.pressure >= PRESSURE)


class LoadMonitor:
    """Measures the load in a thread of its own, which does nothing else: whatever it did would be measured, too."""

    def __init__(self, progress: Callable[[], Progress], on_fatal: Callable[[BaseException], None]) -> None:
        self._progress = progress
        self._seconds: deque[Second] = deque(maxlen=WINDOW)
        self._began, self._beat_at = time.monotonic(), time.monotonic()
        self._delays: list[float] = []
        self._before = Progress(0, 0)
        self._stalled = cpu_stalled()
        self._judges_at = 0.0
        self._periodic = Periodic("load", BEAT, self._beat, on_fatal)
        self.overloaded: str | None = None
        """What was measured, in one line, while the service is overloaded."""

    def start(self) -> None:
        """Start to measure."""
        self._began = self._beat_at = time.monotonic()
        self._judges_at = self._began + START
        self._periodic.start()

    def stop(self, timeout: float) -> None:
        """Stop."""
        self._periodic.stop(timeout)
        AWAKE.end()

    @property
    def is_starved(self) -> bool:
        """Whether the last second was starved."""
        return bool(self._seconds) and self._seconds[-1].is_starved

    @property
    def delay(self) -> float:
        """Seconds by which a thread was woken late in the last second, on average."""
        return self._seconds[-1].delay if self._seconds else 0.0

    def _beat(self) -> None:
        AWAKE.beat(RATE if self.overloaded else 1.0)
        now = time.monotonic()
        self._delays.append(max(0.0, now - self._beat_at - BEAT))
        self._beat_at = now
        if now - self._began >= 1:
            second = self._measure(now)
            if self._before.all_run and now < self._judges_at:
                self._seconds.clear()  # they were starved by the opening
                self._judges_at = now
            self.add(second)

    def _measure(self, now: float) -> Second:
        elapsed, self._began = now - self._began, now
        delay, self._delays = sum(self._delays) / len(self._delays), []
        before, self._before = self._before, self._progress()
        due, not_taken = self._before.due - before.due, self._before.not_taken - before.not_taken
        stalled_before, stalled = self._stalled, cpu_stalled()
        self._stalled = stalled
        pressure = None if stalled is None or stalled_before is None else min(1.0, (stalled - stalled_before) / elapsed)
        return Second(delay, pressure, not_taken / due if due > 0 else 0.0, self._before.is_late)

    def add(self, second: Second) -> None:
        """Judge with one more second."""
        self._seconds.append(second)
        starved = sum(each.is_starved for each in self._seconds)
        if time.monotonic() >= self._judges_at and (starved >= BEGINS or (self.overloaded and starved > ENDS)):
            self.overloaded = self._description()
        else:
            self.overloaded = None

    def _description(self) -> str:
        last = list(self._seconds)
        delay = sum(each.delay for each in last) / len(last)
        not_taken = sum(each.not_taken for each in last) / len(last)
        pressure = [each.pressure for each in last if each.pressure is not None]
        waiting = f", tasks wait for a processor in {sum(pressure) / len(pressure):.0%} of the time" if pressure else ""
        return f"threads are woken {1000 * delay:.0f} ms late, {not_taken:.0%} of the frames are not taken{waiting}"


def cpu_stalled() -> float | None:
    """Return the seconds since boot in which some task waited for a processor; None where they are not measured."""
    try:
        found = re.search(r"^some .*total=(\d+)$", PRESSURE_FILE.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(found[1]) / MICROSECONDS if found else None
