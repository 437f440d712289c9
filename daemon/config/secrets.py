"""Resolves the secrets named by the config: user names and passwords, and the page's token.

Those of the broker and of cameras are read again for every connection.
"""

import os
import re

from edgemeta.daemon.config.login import Login
from edgemeta.daemon.config.web import WebConfig
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.small_file import FileError, read_small_file

TOKEN = re.compile(r"[A-Za-z0-9._~+/=-]{16,512}")
"""Valid in an `Authorization: Bearer` header (RFC 6750), and too long to guess."""

MOST_BYTES = 65_536
"""Of a file with a secret: MQTT's limit of a password."""


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
        return _first_line(f"{key}_file", what, file)
    if variable is not None:
        found = os.environ.get(variable)
        if not found:
            raise SecretError(f"{key}_env", f"environment variable {variable} is not set, expected the {what}")
        return _checked(f"{key}_env", f"environment variable {variable}", found, what)
    return None


def _first_line(key: str, what: str, file: str) -> str:
    try:
        text = read_small_file(file, MOST_BYTES).decode()
    except FileError as error:
        raise SecretError(key, f"{what} file {error}") from error
    except UnicodeDecodeError as error:
        raise SecretError(key, f"{what} file {file} is not UTF-8 text") from error
    if text.startswith("\ufeff"):
        raise SecretError(key, f"{what} file {file} begins with a byte order mark, expected UTF-8 text without one")
    line = text.partition("\n")[0].removesuffix("\r")
    if not line:
        raise SecretError(key, f"{what} file {file} has an empty first line, expected the {what}")
    return _checked(key, f"{what} file {file}", line, what)


def _checked(key: str, place: str, value: str, what: str) -> str:
    """Return a secret that can be sent: MQTT, HTTP and RTSP have no control characters. Raises SecretError."""
    if any(ord(letter) < 32 or 0x7F <= ord(letter) < 0xA0 or "\ud800" <= letter <= "\udfff" for letter in value):
        raise SecretError(key, f"{place} has a control character or invalid text, expected the {what} in UTF-8")
    return value
