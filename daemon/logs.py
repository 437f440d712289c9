"""The log: standard error, one line per event; under journald its own priorities and no second time stamp."""

import logging
import os
import sys

PRIORITIES = {logging.DEBUG: 7, logging.INFO: 6, logging.WARNING: 4, logging.ERROR: 3, logging.CRITICAL: 2}
"""Levels as in sd-daemon(3)."""


class _Journal(logging.Formatter):
    """`<priority>message`, every line of it, as journald reads it."""

    def format(self, record: logging.LogRecord) -> str:
        priority = PRIORITIES.get(record.levelno, 6)
        return "\n".join(f"<{priority}>{line}" for line in super().format(record).splitlines())


def set_up(level: str) -> None:
    """Write records of `level` and above to standard error.

    Under journald (JOURNAL_STREAM is set) lines carry priorities; elsewhere local time and the level's name.
    """
    handler = logging.StreamHandler(sys.stderr)
    if "JOURNAL_STREAM" in os.environ:
        handler.setFormatter(_Journal("%(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    root = logging.getLogger("edgemeta")
    root.handlers = [handler]
    root.setLevel(level.upper())
    root.propagate = False
