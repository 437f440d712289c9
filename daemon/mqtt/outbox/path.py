"""Path of the outbox file."""

from pathlib import Path

from edgemeta.daemon.config.config import Config
from edgemeta.daemon.config.data_folder import data_folder


def file_of(config: Config) -> Path | None:
    """Return the outbox file of the device; None if the config keeps messages in memory only."""
    if config.mqtt.outbox.max_disk_mb == 0:
        return None
    return data_folder(config.data_folder) / f"outbox-{config.device}.sqlite3"
