"""Answers to HTTP requests, each with the headers that keep other sites and old copies out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TypeAlias

TEXT = "text/plain; charset=utf-8"
JSON = "application/json"
EVENTS = "text/event-stream"

GUARDS = {
    # The page is of one piece with this server: nothing from anywhere else, and no script inside the HTML.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
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
    """A whole answer. delay: seconds to wait before it is sent."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0


@dataclass(frozen=True)
class Stream:
    """An answer that goes on (server-sent events).

    after: gives the next event's bytes for a cursor, and the cursor to ask with next time; `cursor` is the first.
    every: seconds between two events.
    """

    after: Callable[[int], tuple[bytes, int]]
    cursor: int
    every: float


Answer: TypeAlias = Response | Stream


def sentence(status: HTTPStatus, text: str, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer of one line, or a few."""
    return Response(status, TEXT, f"{text}\n".encode(), headers or {})


def head_of(answer: Answer) -> bytes:
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
