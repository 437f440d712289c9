"""The log: standard error, one line per event; under journald its own priorities and no second time stamp."""

import logging
import os
import sys

PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
"""Levels as in sd-daemon(3)."""


STDERR = 2
"""The descriptor of standard error."""


class _Journal(logging.Formatter):
    """`<priority>message`, every line of it, as journald reads it."""

    def format(self, record: logging.LogRecord) -> str:
        priority = PRIORITIES.get(record.levelno, 6)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


def set_up(level: str) -> None:
    """Write records of `level` and above to standard error.

    Where standard error is journald's, lines carry priorities; elsewhere local time and the level's name.
    """
    handler = logging.StreamHandler(sys.stderr)
    if _is_journal(STDERR):
        handler.setFormatter(_Journal("%(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    root = logging.getLogger("edgemeta")
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False


def _is_journal(descriptor: int) -> bool:
    """Whether journald reads this descriptor: JOURNAL_STREAM is then its device and inode, as systemd.exec(5) says."""
    status = os.fstat(descriptor)
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"
