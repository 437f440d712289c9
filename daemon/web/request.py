"""One HTTP request, parsed strictly: an invalid one is refused with a status and one sentence.

One request per connection, so none can be smuggled behind another; no chunks, continuation lines or encoded paths.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

from edgemeta.model.errors import EdgemetaError

MAX_HEAD = 16_384
"""Bytes of request line and headers; a browser sends about 1,000."""

MAX_BODY = 4096
"""Bytes of a form; a token has at most 512."""

ONCE = frozenset({"authorization", "content-length", "cookie", "host", "transfer-encoding"})
"""Headers that are evaluated here, so a duplicate would be ambiguous."""

_LINE = re.compile(rb"([A-Z]{1,16}) (/[\x21-\x7e]*) HTTP/1\.[01]")
_HEADER = re.compile(rb"([A-Za-z0-9!#$%&'*+.^_`|~-]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")


class RequestError(EdgemetaError):
    """A request that cannot be answered, with the status and the reason."""

    def __init__(self, status: HTTPStatus, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Request:
    """A request. Header names in lower case; path without query; peer is the client's address."""

    method: str
    path: str
    headers: Mapping[str, str]
    peer: str = ""
    body: bytes = b""

    @property
    def length(self) -> int:
        """Bytes of body that follow the head. Raises RequestError for more than MAX_BODY, and for chunks."""
        if "transfer-encoding" in self.headers:
            raise RequestError(HTTPStatus.NOT_IMPLEMENTED, "chunked bodies are not supported; send a Content-Length")
        text = self.headers.get("content-length", "0")
        if not re.fullmatch("[0-9]{1,18}", text):
            raise RequestError(HTTPStatus.BAD_REQUEST, "the Content-Length is not a whole number")
        if int(text) > MAX_BODY:
            raise RequestError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {MAX_BODY} bytes are accepted")
        return int(text)

    def cookie(self, name: str) -> str | None:
        """Return the value of a cookie, None if the client sent none of this name."""
        for pair in self.headers.get("cookie", "").split(";"):
            key, _, value = pair.strip().partition("=")
            if key == name:
                return value
        return None


def parse(head: bytes, peer: str = "") -> Request:
    """Parse request line and headers, including the empty line. Raises RequestError."""
    first, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    line = _LINE.fullmatch(first)
    if line is None:
        raise RequestError(HTTPStatus.BAD_REQUEST, "the request line is not METHOD /PATH HTTP/1.1")
    headers: dict[str, str] = {}
    for text in lines:
        header = _HEADER.fullmatch(text)
        if header is None:
            raise RequestError(HTTPStatus.BAD_REQUEST, "a header line is not NAME: VALUE")
        name = header[1].decode("ascii").lower()
        if name in headers and name in ONCE:
            raise RequestError(HTTPStatus.BAD_REQUEST, f"the header {name} is given twice")
        headers.setdefault(name, header[2].decode("latin-1"))
    return Request(line[1].decode("ascii"), line[2].decode("ascii").partition("?")[0], headers, peer)
