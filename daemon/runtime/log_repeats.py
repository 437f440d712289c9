"""Equal lines of the log are written once: those that come again soon are counted, and their number told at the end.

The first is always written at once, and so is whatever differs in a letter, has a traceback, or is told by another
logger or at another level.
"""

import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TextIO, TypeAlias

WINDOW = 10.0
"""Seconds from a line during which equal ones are only counted."""

REMEMBERED = 256
"""Lines that are remembered; with one more the oldest is forgotten, and its number told."""

LONGEST = 1000
"""Characters of a line that is remembered; longer ones are written each time."""

_Key: TypeAlias = tuple[str, int, str]


@dataclass
class _Line:
    """The first record of a line, when its window began (monotonic), and how many came in it after the first."""

    record: logging.LogRecord
    since: float
    repeats: int = 0


class RepeatsHandler(logging.StreamHandler[TextIO]):
    """Writes records to a stream, equal ones once in a window. Any thread may log."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines: OrderedDict[_Key, _Line] = OrderedDict()
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write or count a record; the handler's lock is held."""
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - as StreamHandler does: a wrong call of the log ends nothing
            self.handleError(record)
            return
        now = time.monotonic()
        self._tell(now - WINDOW)
        key = (record.name, record.levelno, text)
        if key in self._lines:
            self._lines[key].repeats += 1
            self._tell_later(self._lines[key].since + WINDOW - now)
            return
        super().emit(record)
        if not record.exc_info and len(text) <= LONGEST:
            if len(self._lines) == REMEMBERED:
                self._write(self._lines.popitem(last=False)[1])
            kept = logging.makeLogRecord(vars(record) | {"msg": text, "args": None})  # not what was only named
            self._lines[key] = _Line(kept, now)

    def tell(self) -> None:
        """Write now how often lines were repeated."""
        self.acquire()
        try:
            self._tell(time.monotonic())
        finally:
            self.release()

    def close(self) -> None:
        """Write what was only counted, and end."""
        self.tell()
        self._cancel()
        super().close()

    def _tell(self, before: float) -> None:
        """Write the numbers of the windows that began by then; a line that was repeated begins another window."""
        now = time.monotonic()
        for key, line in list(self._lines.items()):
            if line.since > before:
                return
            del self._lines[key]
            if line.repeats:
                self._write(line)
                self._lines[key] = _Line(line.record, now)

    def _write(self, line: _Line) -> None:
        if line.repeats == 0:
            return
        seconds = max(1, round(time.monotonic() - line.since))
        times = "once" if line.repeats == 1 else f"{line.repeats} times"
        now = time.time()
        changed = {
            "msg": f"repeated {times} within {seconds} s: {line.record.msg}",
            "repeated": line.repeats,
            "created": now,
            "msecs": now % 1 * 1000,
        }
        super().emit(logging.makeLogRecord(vars(line.record) | changed))

    def _tell_later(self, seconds: float) -> None:
        """Have the numbers told where nobody logs: a thread for one window, only where there is something to tell."""
        if self._timer is None:
            self._timer = threading.Timer(max(0.0, seconds), self._on_time)
            self._timer.name, self._timer.daemon = "log repeats", True
            self._timer.start()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_time(self) -> None:
        self.acquire()
        try:
            self._timer = None
            now = time.monotonic()
            self._tell(now - WINDOW)
            for line in self._lines.values():
                if line.repeats:
                    self._tell_later(line.since + WINDOW - now)
                    break
        finally:
            self.release()
