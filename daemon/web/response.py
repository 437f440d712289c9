"""Answers to HTTP requests, with headers against access by other sites and against caching."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
EVENTS = "text/event-stream"

GUARDS = {
    # The page loads files from this server only, and has no script inside the HTML. Pictures with boxes come as data,
    # in one answer with the objects of the same frame.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Cache-Control": "no-store",
    "Connection": "close",
}
"""Headers of every answer."""


@dataclass(frozen=True)
class Response:
    """A complete answer. delay: seconds to wait before it is sent."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True)
class Stream:
    """A continuous answer (server-sent events).

    after: returns the next event's bytes for a cursor, and the next cursor; `cursor` is the first.
    interval: seconds between two events.
    """

    after: Callable[[int], tuple[bytes, int]]
    cursor: int
    interval: float


@dataclass(frozen=True)
class Deferred:
    """An answer that needs the disk: `make` is called in another thread."""

    make: Callable[[], Response]


Answer: TypeAlias = Response | Stream | Deferred


def sentence(status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer of plain text."""
    return Response(status, TEXT, f"{text}\n".encode(), headers or {})


def head_of(answer: Response | Stream) -> bytes:
    """Return the status line and headers of an answer, with the empty line at their end."""
    if isinstance(answer, Stream):
        status, own = HTTPStatus.OK, {"Content-Type": EVENTS, "X-Accel-Buffering": "no"}
    else:
        status, own = answer.status, {"Content-Type": answer.content_type, "Content-Length": str(len(answer.body))}
        own |= answer.headers
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        *(f"{name}: {value}" for name, value in (GUARDS | own).items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
