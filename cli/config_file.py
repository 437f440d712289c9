"""The config of a service, as commands beside it read it."""

from pathlib import Path

from edgemeta.daemon.config.config import Config, resolved
from edgemeta.daemon.config.loader import ConfigFile


def config_of(path: Path) -> Config:
    """Read a config, without loading its models; paths in it are relative to its folder. Raises ConfigError."""
    file = ConfigFile(path, Config)
    found, problems = file.validate()
    if found is None or problems:
        raise file.error(problems)
    return resolved(found, path.parent)
