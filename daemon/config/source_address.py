"""Where a camera's frames come from: a device, a path or a URL. What may be secret in it is never shown.

An address is used in two ways, so it has two forms: `target()` is what the program or library opens, with the login in
it; `str()` is what logs, messages, pages and errors show: scheme, host and port of a URL, and the path of a local file.
There is no other way to its text, so an address cannot be printed by mistake.
"""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, unquote

from edgemeta.daemon.config.login import Login
from edgemeta.daemon.config.secrets import password_of, username_of
from edgemeta.daemon.config.section import path_text
from edgemeta.daemon.config.shown_text import HOST, secret_parts, shown_address, split_authority, without_addresses
from edgemeta.model.errors import EdgemetaError

PORTS = {"rtsp": 554, "rtsps": 322, "http": 80, "https": 443, "rtmp": 1935, "rtmps": 443, "udp": 0}
"""Schemes of network cameras, and their usual ports; 0: none is usual."""

CODED = "`/ ? # @ %` in a user name or password written as `%2F %3F %23 %40 %25`, or the keys `username` and \
`password_file`; an `@` behind the host as `%40`"
FROM_FILE = "the password by `password_file` or `password_env`, with `{password}` in its place where it is not a login"

_PLACEHOLDER = re.compile(r"\{(username|password)\}")
_VARIABLE = re.compile(r"\$\{\w+\}|\{\w*(?:PASS|PW|USER|LOGIN|TOKEN|SECRET|KEY)\w*\}|!secret\b", re.IGNORECASE)
"""What other programs replace by a variable or a secret, for example `{FRIGATE_RTSP_PASSWORD}`."""


class AddressError(EdgemetaError):
    """An address that cannot work, and is not shown. expected: what was expected instead."""

    def __init__(self, expected: str) -> None:
        super().__init__(f"found an address that cannot work (not shown), expected {expected}")
        self.expected = expected


@dataclass(frozen=True)
class Target:
    """What is opened: the text with the login in it, for a library or a program's input, never for a log."""

    text: str = field(repr=False)
    shown: str
    parts: frozenset[str] = field(repr=False)
    """Texts that may be secret."""

    def cleaned(self, message: str) -> str:
        """Return a library's message without the address: addresses as they are shown, secret parts as three stars."""
        message = without_addresses(message.replace(self.text, self.shown))
        for part in sorted(self.parts, key=len, reverse=True):
            message = re.sub(rf"(?<!\w){re.escape(part)}(?!\w)", "***", message)
        return message


class SourceAddress:
    """An address as the config has it, with the login that belongs to it. Raises AddressError if it cannot work.

    login: the keys `username`, `password_file` and so on beside it. show_path: whether `str()` has a URL's path, too.
    """

    __slots__ = ("_login", "_show_path", "_text", "host", "port", "scheme")

    def __init__(self, text: str, login: Login | None = None, show_path: bool = False) -> None:
        self._text, self._login, self._show_path = text, login, show_path
        scheme, separator, _ = text.partition("://")
        self.scheme = scheme.lower() if separator else ""
        """The scheme; empty for a plain path or a device's number."""
        self.host, self.port = _endpoint(self.scheme, self.rest) if self.is_network else ("", 0)
        """Of a network camera: its host, without brackets, and its port."""
        if not separator:
            _check_path(text)
        if self.scheme in ("", "file", "image", "video"):
            _check_name(str(self.path))
        without_login = _PLACEHOLDER.sub("", text)
        if self.scheme not in ("", "file", "image", "video") and _VARIABLE.search(without_login):
            raise AddressError(f"an address without variables; {FROM_FILE}")

    def __str__(self) -> str:
        return shown_address(self._text, self._show_path)

    def __repr__(self) -> str:
        return f"'{self}'"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SourceAddress) and self._text == other._text

    def __hash__(self) -> int:
        return hash(self._text)

    @property
    def is_network(self) -> bool:
        """Whether it is the URL of a network camera."""
        return self.scheme in PORTS

    @property
    def is_number(self) -> bool:
        """Whether it is the number of a V4L2 device."""
        return is_number(self._text)

    @property
    def has_login(self) -> bool:
        """Whether it contains a login itself."""
        return self.is_network and "@" in self._text

    @property
    def names_login(self) -> bool:
        """Whether `{username}` or `{password}` marks a place for the keys `username` and `password_file`."""
        return _PLACEHOLDER.search(self._text) is not None

    @property
    def written(self) -> str:
        """The address as the config has it. It may be secret."""
        return self._text

    @property
    def rest(self) -> str:
        """What follows the scheme as the config has it. It may be secret."""
        return self._text.partition("://")[2] if self.scheme else self._text

    @property
    def path(self) -> Path:
        """The path of a plain path, file:///a%20b (percent-coded), image:///a/b or video:///a/b."""
        return Path(unquote(self.rest) if self.scheme == "file" else self.rest)

    def beside(self, folder: Path) -> "SourceAddress":
        """Return the address with a relative path resolved against `folder`; URLs and device numbers stay."""
        return self if self.scheme or self.is_number else SourceAddress(str(folder / self._text))

    def with_login(self, login: Login, show_path: bool) -> "SourceAddress":
        """Return the address with the login that the config has beside it."""
        return SourceAddress(self._text, login, show_path)

    def target(self) -> Target:
        """Return what is opened, with user name and password as they are now. Raises SecretError."""
        login = self.login()
        coded = {key: quote(value, safe="") for key, value in login.items()}
        text = _filled(self._text, coded)
        if self.is_network and login and not self.names_login:
            text = text.replace("://", f"://{':'.join(coded.values())}@", 1)
        parts = secret_parts(text) if self.is_network else frozenset()
        return Target(text, str(self), parts | {*login.values(), *coded.values()})

    def pipeline(self) -> tuple[list[str], Target]:
        """Return the words of a GStreamer pipeline, with the login in them, and what cleans its messages.

        Raises SecretError, and ValueError for an open quotation mark.
        """
        login = self.login()
        words = [_filled(word, login) for word in shlex.split(self.rest)]
        values = {word.partition("=")[2] for word in words} | {
            word for before, word in pairwise(words) if before != "!" and "=" not in word
        }
        secret = [value for value in values if not value.startswith("/dev/")]
        parts = {part for value in secret for part in (value, *re.split(r"\W+", value)) if len(part) > 2}
        return words, Target(self._text, str(self), frozenset({*parts, *login.values()}))

    def login(self) -> dict[str, str]:
        """Return user name and password, as far as the config names them beside the address. Raises SecretError."""
        if self._login is None:
            return {}
        found = {"username": username_of(self._login), "password": password_of(self._login)}
        return {key: value for key, value in found.items() if value is not None}


def is_number(text: str) -> bool:
    """Return whether a text is a whole number, as of a V4L2 device."""
    return text.isascii() and text.isdecimal()


def _filled(text: str, login: Mapping[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: login.get(found[1], ""), text)


def _endpoint(scheme: str, rest: str) -> tuple[str, int]:
    """Return host and port of a network camera. Raises AddressError."""
    authority, place = split_authority(rest)
    login, _, host = authority.rpartition("@")
    found = HOST.fullmatch(host)
    if scheme == "udp" and (login or found is None or not found[2]):  # udp://@GROUP:PORT is how players write it
        raise AddressError("udp://ADDRESS:PORT without a login: where the stream arrives, or its multicast group")
    if "@" in place or re.search(r"%(?![0-9A-Fa-f]{2})", login):
        raise AddressError(CODED)
    if found is None or (found[2] and not 0 < int(found[2]) < 65536):
        raise AddressError(f"{scheme}://host or {scheme}://host:port with a port from 1 to 65535, and {CODED}")
    return found[1].strip("[]"), int(found[2] or PORTS[scheme])


def _check_name(path: str) -> None:
    """Check that a file can have a path. Raises AddressError."""
    if "\0" in path:
        raise AddressError("a path without a NUL character")
    try:
        path_text(path)
    except ValueError as error:
        raise AddressError(str(error)) from error


def _check_path(text: str) -> None:
    """Check that a path is no URL with a mistake. Raises AddressError."""
    explicit = text.startswith(("./", "../")) or (text[:1] == "/" and text[:2] != "//")
    if not explicit and ("@" in text or re.match(r"//|[A-Za-z]+:|(rtsp|http)s?/|\d+(\.\d+){3}(:\d+)?(/|$)", text)):
        raise AddressError("`scheme://` in front of the host, for example rtsp://192.0.2.1/stream; a path as ./PATH")
