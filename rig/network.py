"""A TCP proxy on loopback that can be cut: between the service and its broker it plays the network."""

import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeAlias

Filter: TypeAlias = Callable[[bytes], Iterable[bytes]]
"""What becomes of the bytes of one connection in one direction."""


class Network:
    """Forwards connections to a port while it is whole. One connection at a time is what the service makes."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self._whole = threading.Event()
        self._whole.set()
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self._refusing = False
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self) -> None:
        """Break every connection with an RST and accept no new one, as a router does that restarts."""
        self._refusing = True
        self._drop_all()

    def silence(self) -> None:
        """Let nothing through, and tell nobody, as a pulled cable does."""
        self._whole.clear()

    def mend(self, forget: bool) -> None:
        """Be whole again. After a silence the old connections go on, or, to `forget`, are broken."""
        if forget:
            self._drop_all()
        self._refusing = False
        self._whole.set()

    def close(self) -> None:
        """Break everything for good."""
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
            for source, sink, through in ((near, far, _unchanged), (far, near, self._toward_client())):
                threading.Thread(target=self._pump, args=(source, sink, through), daemon=True).start()

    def _toward_client(self) -> Filter:
        """Return what one new connection's bytes pass on their way to the client."""
        return _unchanged

    def _pump(self, source: socket.socket, sink: socket.socket, through: Filter) -> None:
        with suppress(OSError):
            while content := source.recv(65536):
                self._whole.wait()
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
