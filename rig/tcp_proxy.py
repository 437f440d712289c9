"""A TCP proxy on loopback that simulates network failures, for example between the service and its broker."""

import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeAlias

Filter: TypeAlias = Callable[[bytes], Iterable[bytes]]
"""Transforms the bytes of one connection in one direction."""


class TcpProxy:
    """Forwards connections to a port, unless a failure is simulated."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._working = threading.Event()
        self._working.set()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._refusing = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self) -> None:
        """Reset every connection and refuse new ones, like a router that restarts."""
        self._refusing = True
        self._drop_all()

    def silence(self) -> None:
        """Drop everything without closing connections, like a pulled cable."""
        self._working.clear()

    def restore(self, forget: bool) -> None:
        """Work again. After `silence` the old connections continue, or are reset if `forget`."""
        if forget:
            self._drop_all()
        self._refusing = False
        self._working.set()

    def close(self) -> None:
        """Reset all connections and stop."""
        self.reset()
        self._listener.close()

    def _drop_all(self) -> None:
        with self._lock:
            for one in self._sockets:
                with suppress(OSError):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    one.shutdown(socket.SHUT_RDWR)
                one.close()
            self._sockets.clear()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._refusing:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self._to_port), timeout=1.0)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            with self._lock:
                self._sockets |= {near, far}
            for source, sink, through in (
                (near, far, self._toward_server()),
                (far, near, self._toward_client()),
            ):
                threading.Thread(target=self._pump, args=(source, sink, through), daemon=True).start()

    def _toward_client(self) -> Filter:
        """Return what one new connection's bytes pass on their way to the client."""
        return _unchanged

    def _toward_server(self) -> Filter:
        """Return what one new connection's bytes pass on their way to the server."""
        return _unchanged

    def _pump(self, source: socket.socket, sink: socket.socket, through: Filter) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                self._working.wait()
                for part in through(content):
                    sink.sendall(part)
        with self._lock:
            for one in (source, sink):
                if one in self._sockets:
                    self._sockets.discard(one)
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
                    one.close()


def _unchanged(content: bytes) -> Iterable[bytes]:
    return (content,)
