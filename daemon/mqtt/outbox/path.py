"""Where the outbox file lies."""

from pathlib import Path

from edgemeta.daemon.config.broker import OutboxConfig
from edgemeta.daemon.config.state_folder import state_folder


def file_of(config: OutboxConfig, device: str) -> Path | None:
    """Return the outbox file of a device, None where the config keeps messages in memory only.

    systemd sets STATE_DIRECTORY for a unit with StateDirectory=; elsewhere the XDG base directories decide.
    """
    if config.size == 0:
        return None
    return state_folder(config) / f"outbox-{device}.sqlite3"
