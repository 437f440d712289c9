"""The folder of all that the service keeps on disk."""

import os
from pathlib import Path

from edgemeta.daemon.config.broker import OutboxConfig


def state_folder(config: OutboxConfig) -> Path:
    """Return the folder of all that the service keeps on disk."""
    if config.folder is not None:
        return Path(config.folder)
    if state := os.environ.get("STATE_DIRECTORY", "").partition(":")[0]:
        return Path(state)
    xdg = os.environ.get("XDG_STATE_HOME", "")
    return (Path(xdg) if xdg.startswith("/") else _home() / ".local" / "state") / "edgemeta"


def _home() -> Path:
    """Return the home folder; for a user without one a folder that cannot be written, which the outbox then says."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/nonexistent")
