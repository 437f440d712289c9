"""Resolves the secrets named by the config: user names and passwords, and the page's token.

Those of the broker and of cameras are read again for every connection.
"""

import os
import re
from pathlib import Path

from edgemeta.daemon.config.login import Login
from edgemeta.daemon.config.web import WebConfig
from edgemeta.model.errors import EdgemetaError

TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
"""Valid in an `Authorization: Bearer` header (RFC 6750), and too long to guess."""


class SecretError(EdgemetaError):
    """A secret that cannot be read or is invalid; `key` is its key in the section."""

    def __init__(self, key: str, reason: str) -> None:
        super().__init__(reason)
        self.key = key


def username_of(config: Login) -> str | None:
    """Return the user name, None if none is configured. Raises SecretError."""
    return (
        _from_file_or_environment("username", "user name", config.username_file, config.username_env) or config.username
    )


def password_of(config: Login) -> str | None:
    """Return the password, None if none is configured. Raises SecretError."""
    found = _from_file_or_environment("password", "password", config.password_file, config.password_env)
    return config.password.get_secret_value() if config.password is not None else found


def token_of(config: WebConfig) -> str | None:
    """Return the page's token, None if none is configured. Raises SecretError, also for an invalid one."""
    token = _from_file_or_environment("token", "token", config.token_file, config.token_env)
    if config.token is not None:
        token = config.token.get_secret_value()
    if token is not None and not TOKEN.fullmatch(token):
        key = next(key for key in ("token", "token_file", "token_env") if getattr(config, key) is not None)
        raise SecretError(key, "a token that is too short, or has invalid characters")
    return token


def _from_file_or_environment(key: str, what: str, file: str | None, variable: str | None) -> str | None:
    """Read a file's first line or an environment variable; None if the config has neither."""
    if file is not None:
        try:
            lines = Path(file).read_text("utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            raise SecretError(f"{key}_file", f"{what} file {file} cannot be read: {reason}") from error
        if not lines or not lines[0]:
            raise SecretError(f"{key}_file", f"{what} file {file} has an empty first line, expected the {what}")
        return lines[0]
    if variable is not None:
        if not os.environ.get(variable):
            raise SecretError(f"{key}_env", f"environment variable {variable} is not set, expected the {what}")
        return os.environ[variable]
    return None
