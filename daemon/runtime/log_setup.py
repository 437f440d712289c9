"""Logging set-up: standard error, one line per event, as text or JSON; with priorities under journald.

Fields for programs are passed as `extra`, for example `extra={"camera": "front"}`; text omits them, because the message
contains them. Identical lines within a short time are written once and counted (log_repeats.py).
"""

import json
import logging
import os
import sys
from datetime import datetime, timezone

from edgemeta.daemon.runtime.log_repeats import RepeatsHandler

PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
"""Levels as in sd-daemon(3)."""

STDERR = 2
"""The descriptor of standard error."""

_OWN = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})
"""Attributes of every record; all others were passed as `extra`."""


class JsonFormatter(logging.Formatter):
    """One object per record: time (UTC), level, logger, thread, message, the call's own fields, and an exception."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of ASCII; a field of another type becomes its text."""
        fields: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        fields |= {name: value for name, value in vars(record).items() if name not in _OWN}
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str)


class _Journal(logging.Formatter):
    """Prefixes each line of another formatter with `<priority>`, as journald expects it."""

    def __init__(self, lines: logging.Formatter) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        priority = PRIORITIES.get(record.levelno, 6)
        return "\n".join(f"<{priority}>{line}" for line in self._lines.format(record).splitlines())


def set_up(level: str, style: str = "text") -> None:
    """Write records of `level` and above to standard error, as `text` or as `json`.

    If standard error is journald's, lines have priorities, and text has no time; otherwise text has the local time and
    the name of the level.
    """
    journal = _is_journal(STDERR)
    formatter = JsonFormatter() if style == "json" else logging.Formatter(_text(journal))
    handler = RepeatsHandler(sys.stderr)
    handler.setFormatter(_Journal(formatter) if journal else formatter)
    root = logging.getLogger("edgemeta")
    for before in _ours(root):
        before.close()
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def log_pending_repeats() -> None:
    """Write the counts of repetitions now, so that the last line of the log is the one that follows."""
    for handler in _ours(logging.getLogger("edgemeta")):
        handler.write_counts()


def _ours(root: logging.Logger) -> list[RepeatsHandler]:
    return [handler for handler in root.handlers if isinstance(handler, RepeatsHandler)]


def _text(journal: bool) -> str:
    return "%(message)s" if journal else "%(asctime)s %(levelname)-7s %(message)s"


def _is_journal(descriptor: int) -> bool:
    """Return whether journald reads this descriptor: JOURNAL_STREAM is its device and inode (systemd.exec(5))."""
    status = os.fstat(descriptor)
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
