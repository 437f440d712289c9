"""Whether a silent stream's server still answers, seen from the stream's own connection.

TCP keepalive asks the server's kernel once a second while nothing else is sent; the connection's state says when it
last answered. So a slow camera is not disturbed by another connection, which some cannot have. Only a server that has
not answered for a while is sought by new connections (tcp_probe.py): after an outage of the network the old one resumes
late, the later the longer the outage was.
"""

import socket
import struct
from contextlib import suppress

from edgemeta.daemon.capture.sources.stream.tcp_probe import TcpProbe

UNREACHABLE_AFTER = 2.5
"""Seconds without an answer after which a server counts as unreachable: two keepalive probes were lost."""

KEEPALIVE = {socket.TCP_KEEPIDLE: 1, socket.TCP_KEEPINTVL: 1, socket.TCP_KEEPCNT: 127}
"""Ask after a second, then each second, and never end the connection for it: how long to wait is decided here."""

INFO_BYTES, LAST_RECEIVED = 104, 52
"""Size of `struct tcp_info` that is asked for, and where it has the milliseconds since the last data and the last
acknowledgement came (tcpi_last_data_recv, tcpi_last_ack_recv)."""


class ServerWatch:
    """Looks at one connection, which is closed by its owner."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._probe: TcpProbe | None = None
        with suppress(OSError):  # the server may have closed it already: the stream then ends
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in KEEPALIVE.items():
                connection.setsockopt(socket.IPPROTO_TCP, option, value)

    def returned(self) -> bool:
        """Whether the server was unreachable, and answers again."""
        try:
            if self._probe is None:
                if self._silent_for() < UNREACHABLE_AFTER:
                    return False
                self._probe = TcpProbe([(int(self._connection.family), self._connection.getpeername())])
            self._probe.connect()
            return self._probe.answered() or self._silent_for() < UNREACHABLE_AFTER
        except OSError:  # the connection is no more: its reader knows the reason
            return False

    def forget(self) -> None:
        """End the search: the stream goes on."""
        if self._probe is not None:
            self._probe.close()
            self._probe = None

    def _silent_for(self) -> float:
        """Seconds since anything came from the server."""
        info = self._connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
        data, acknowledgement = struct.unpack_from("=II", info, LAST_RECEIVED)
        return float(min(data, acknowledgement)) / 1000
