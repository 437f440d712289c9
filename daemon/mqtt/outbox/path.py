"""Where the outbox file lies."""

import os
from pathlib import Path

from edgemeta.daemon.config.broker import OutboxConfig


def file_of(config: OutboxConfig, device: str) -> Path | None:
    """Return the outbox file of a device, None where the config keeps messages in memory only.

    systemd sets STATE_DIRECTORY for a unit with StateDirectory=; elsewhere the XDG base directories decide.
    """
    if config.size == 0:
        return None
    return state_folder(config) / f"outbox-{device}.sqlite3"


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
