"""Identical log lines are written once: repetitions within a window are counted, and the count is written at its end.

The first is always written at once, and so is every line that differs in text, level or logger, or has a traceback.
"""

import logging
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from typing import TextIO, TypeAlias

WINDOW = 10.0
"""Seconds after a line in which identical ones are only counted."""

REMEMBERED = 256
"""Most lines that are remembered; with one more the oldest is dropped and its count written."""

LONGEST = 1000
"""Most characters of a remembered line; longer ones are written each time."""

_Key: TypeAlias = tuple[str, int, str]


@dataclass
class _Line:
    """The first record of a line, the start of its window (monotonic), and the number of repetitions in it."""

    record: logging.LogRecord
    since: float
    repeats: int = 0


class RepeatsHandler(logging.StreamHandler[TextIO]):
    """Writes records to a stream, identical ones once per window. Any thread may log."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._lines: OrderedDict[_Key, _Line] = OrderedDict()
        self._timer: threading.Timer | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Write or count a record; the handler's lock is held."""
        try:
            text = record.getMessage()
        except Exception:  # noqa: BLE001 - as StreamHandler does: a wrong logging call is not fatal
            self.handleError(record)
            return
        now = time.monotonic()
        self._write_counts(now - WINDOW)
        key = (record.name, record.levelno, text)
        if key in self._lines:
            self._lines[key].repeats += 1
            self._schedule(self._lines[key].since + WINDOW - now)
            return
        super().emit(record)
        if not record.exc_info and len(text) <= LONGEST:
            if len(self._lines) == REMEMBERED:
                self._write(self._lines.popitem(last=False)[1])
            kept = logging.makeLogRecord(vars(record) | {"msg": text, "args": None})  # keeps no arguments
            self._lines[key] = _Line(kept, now)

    def write_counts(self) -> None:
        """Write the counts of repetitions now."""
        self.acquire()
        try:
            self._write_counts(time.monotonic())
        finally:
            self.release()

    def close(self) -> None:
        """Write the pending counts, and close."""
        self.write_counts()
        self._cancel()
        super().close()

    def _write_counts(self, before: float) -> None:
        """Write the counts of the windows that started by `before`; a repeated line starts another window."""
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

    def _schedule(self, seconds: float) -> None:
        """Write the counts later, also if nothing is logged: with a timer thread, only while there are repetitions."""
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
            self._write_counts(now - WINDOW)
            for line in self._lines.values():
                if line.repeats:
                    self._schedule(line.since + WINDOW - now)
                    break
        finally:
            self.release()
