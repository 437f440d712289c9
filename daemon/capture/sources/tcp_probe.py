"""Whether packets reach a server: connections begun again and again, each given up once one of them is answered.

TCP sends a lost packet again after waits that double: a camera whose network was away for 4 s may be heard of 4 s after
it is back. A new connection's first packet goes out at once, so that one every quarter of a second notices it in time.
"""

import errno
import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

from edgemeta.daemon.capture.source import SourceError

EVERY = 0.25
"""Seconds from knock to knock while nobody answers."""

GREATEST_PENDING = 32
"""Connections that may be pending; the oldest are given up for newer ones."""

ANSWERS = (0, errno.ECONNREFUSED)
"""What a connection comes to where packets flow. "No route to host", say, is no answer."""

Place: TypeAlias = tuple[int, tuple[object, ...]]
"""Family and address of a socket."""


def look_up(host: str, port: int) -> list[Place]:
    """Find the addresses of a server. Raises SourceError where its name leads nowhere."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise SourceError(f"the host {host!r} is not known ({getattr(error, 'strerror', None) or error})") from error
    return [(int(family), address) for family, _, _, _, address in found]


class TcpProbe:
    """Connections to one server that are begun and never used."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = places
        self._pending: deque[socket.socket] = deque()

    def knock(self) -> None:
        """Begin one more connection to each of the server's addresses. Raises SourceError where no socket is left."""
        for family, address in self._places:
            try:
                connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            except OSError as error:
                raise SourceError(f"no connection can be begun: {error.strerror}") from error
            if connection.connect_ex(address) in (errno.EINPROGRESS, *ANSWERS):
                self._pending.append(connection)
            else:
                connection.close()
        while len(self._pending) > GREATEST_PENDING:
            self._pending.popleft().close()

    def answered(self, timeout: float = 0.0) -> bool:
        """Wait for an answer, or for a knock to fail; tell whether there was one. Then all knocks are done with."""
        watched = select.poll()
        for connection in self._pending:
            watched.register(connection.fileno(), select.POLLOUT)
        ready = {number for number, _ in watched.poll(timeout * 1000)}
        ended = [connection for connection in self._pending if connection.fileno() in ready]
        outcomes = [connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for connection in ended]
        if any(outcome in ANSWERS for outcome in outcomes):
            self.close()
            return True
        for connection in ended:
            self._pending.remove(connection)
            connection.close()
        return False

    def close(self) -> None:
        """Give every connection up."""
        while self._pending:
            self._pending.popleft().close()


def wait_for_answer(places: Sequence[Place], seconds: float) -> bool:
    """Knock until there is an answer; return whether one came in time."""
    knocks, deadline = TcpProbe(places), time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            next_at = time.monotonic() + EVERY
            knocks.knock()
            if knocks.answered(EVERY):
                return True
            time.sleep(max(0.0, next_at - time.monotonic()))
        return False
    finally:
        knocks.close()
