"""What of an address may be shown, and which parts of it a text must not contain."""

import re
from urllib.parse import unquote

LOCAL = frozenset({"synthetic", "image", "video", "file", "v4l2", "csi"})
"""Schemes of addresses on this machine, which hold no secret."""

STARS = "***"

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
HOST = re.compile(r"(\[[0-9A-Fa-f:.]+(?:%[\w.-]+)?\]|[\w.-]+)(?::(\d{1,5}))?")
"""Host and port of a URL."""

_WORD = re.compile(r"[^\s'\"<>|]+")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,20}://")


def shown_address(text: str, with_path: bool = False) -> str:
    """Return what may be shown of an address: scheme, host and port, for this machine's own the path.

    What cannot be told from a login is not shown. with_path: show a URL's path, too, but never its query.
    """
    scheme, separator, rest = text.partition("://")
    if not separator:
        return text
    if not _SCHEME.fullmatch(scheme):
        return STARS
    if scheme.lower() in LOCAL:
        return text.partition("?")[0] if scheme.lower() in ("synthetic", "v4l2", "csi") else text
    if scheme.lower() == "gstreamer":
        element = re.match(r"\s*([a-z][a-z0-9]*)(?=\s|$)", rest)
        return f"{scheme}://{element[1] if element else STARS}"
    authority, place = split_authority(rest)
    host = authority.rpartition("@")[2]
    if "@" in place or not HOST.fullmatch(host):
        return f"{scheme}://{STARS}"
    return f"{scheme}://{host}" + (re.split("[?#]", place)[0] if with_path else "")


def split_authority(rest: str) -> tuple[str, str]:
    """Split what follows `scheme://` at the first `/`, `?` or `#`: login with host, and the rest (RFC 3986, 3.2)."""
    length = len(re.split("[/?#]", rest, maxsplit=1)[0])
    return rest[:length], rest[length:]


def without_addresses(text: str) -> str:
    """Return a text in which every URL is as it may be shown, and every other `login@host` is three stars."""
    return _WORD.sub(lambda found: _without_address(found[0]), text)


def _without_address(word: str) -> str:
    found = _URL.search(word)
    if found is None:
        return STARS if "@" in word.replace("@sha256:", "") else word
    return _without_address(word[: found.start()]) + shown_address(word[found.start() :])


def secret_parts(text: str) -> frozenset[str]:
    """Return the parts of a URL that a message must not contain: login, path, query, fragment, and their parts."""
    _, _, rest = text.partition("://")
    login, _, place = re.split(r"[/?#]", rest, maxsplit=1)[0].rpartition("@")
    hidden = rest.partition(place)[2]
    pieces = {login, *login.split(":", 1), hidden, hidden[1:], *re.split(r"[/?#&;=,]", hidden)}
    return frozenset(each for piece in pieces for each in (piece, unquote(piece)) if len(each) > 2)
