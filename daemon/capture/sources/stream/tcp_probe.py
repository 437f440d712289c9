"""TCP reachability probe: opens connections until one is answered, then closes them all.

TCP retransmits a lost packet after delays that double: after a network outage of 4 s a camera's next frame may come 4 s
late. The first packet of a new connection is sent at once, so one every quarter of a second detects the end in time.
"""

import errno
import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from typing import TypeAlias

PROBE_INTERVAL = 0.25
"""Seconds between two connection attempts while there is no answer."""

MAX_PENDING = 32
"""Most pending connections; the oldest are closed for newer ones."""

ANSWERS = (0, errno.ECONNREFUSED)
"""Results of a connection attempt that prove an answer; "No route to host", for example, does not."""

Endpoint: TypeAlias = tuple[int, tuple[object, ...]]
"""Family and address of a socket."""


def resolve(host: str, port: int) -> list[Endpoint]:
    """Return the endpoints of a server. Raises OSError or UnicodeError if its name is unknown."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [(int(family), address) for family, _, _, _, address in found]


class TcpProbe:
    """Pending connections to one server; they are never used."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._endpoints = endpoints
        self._pending: deque[socket.socket] = deque()

    def connect(self) -> None:
        """Start one more connection to each endpoint. Raises OSError if no socket is available."""
        for family, address in self._endpoints:
            connection = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            if connection.connect_ex(address) in (errno.EINPROGRESS, *ANSWERS):
                self._pending.append(connection)
            else:
                connection.close()
        while len(self._pending) > MAX_PENDING:
            self._pending.popleft().close()

    def answered(self, timeout: float = 0.0) -> bool:
        """Wait until a connection is answered or fails; return whether one was answered, and then close all."""
        watched = select.poll()
        for connection in self._pending:
            watched.register(connection.fileno(), select.POLLOUT)
        ready = {number for number, _ in watched.poll(timeout * 1000)}
        ended = [connection for connection in self._pending if connection.fileno() in ready]
        results = [connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for connection in ended]
        if any(result in ANSWERS for result in results):
            self.close()
            return True
        for connection in ended:
            self._pending.remove(connection)
            connection.close()
        return False

    def close(self) -> None:
        """Close every connection."""
        while self._pending:
            self._pending.popleft().close()


def wait_for_answer(endpoints: Sequence[Endpoint], seconds: float) -> bool:
    """Probe until there is an answer; return whether one came in time."""
    probe, deadline = TcpProbe(endpoints), time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            next_at = time.monotonic() + PROBE_INTERVAL
            probe.connect()
            if probe.answered(PROBE_INTERVAL):
                return True
            time.sleep(max(0.0, next_at - time.monotonic()))
        return False
    finally:
        probe.close()
