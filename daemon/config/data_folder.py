"""The folder in which the service keeps its files: the outbox and copies of the last good models."""

import os
from pathlib import Path


def data_folder(configured: str | None) -> Path:
    """Return the configured folder, else the first of the defaults that is set.

    systemd sets STATE_DIRECTORY for a unit with StateDirectory=; elsewhere the XDG base directories decide.
    """
    if configured is not None:
        return Path(configured)
    if state := os.environ.get("STATE_DIRECTORY", "").partition(":")[0]:
        return Path(state)
    xdg = os.environ.get("XDG_STATE_HOME", "")
    return (Path(xdg) if xdg.startswith("/") else _home() / ".local" / "state") / "edgemeta"


def _home() -> Path:
    """Return the home folder; for a user without one a folder that cannot be written, which the outbox then reports."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")
