"""The broker's password, from wherever the config keeps it; read anew for every connection, never shown."""

import os
from pathlib import Path

from edgemeta.daemon.config import MqttConfig
from edgemeta.model.errors import EdgemetaError


class SecretError(EdgemetaError):
    """A password that is not where the config says."""


def password_of(config: MqttConfig) -> str | None:
    """Return the password, None where none is configured. Raises SecretError."""
    if config.password_file is not None:
        try:
            lines = Path(config.password_file).read_text().splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "no UTF-8 text"
            raise SecretError(f"password file {config.password_file} cannot be read: {reason}") from error
        if not lines or not lines[0]:
            raise SecretError(f"password file {config.password_file} has an empty first line, expected the password")
        return lines[0]
    if config.password_env is not None:
        if config.password_env not in os.environ:
            raise SecretError(f"environment variable {config.password_env} is not set, expected the broker's password")
        return os.environ[config.password_env]
    return None if config.password is None else config.password.get_secret_value()
