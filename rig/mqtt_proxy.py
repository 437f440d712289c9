"""A TCP proxy before a broker that can also drop or change acknowledgements, as an overloaded broker or proxy does."""

import time
from collections.abc import Callable, Iterator

from rig.tcp_proxy import Filter, TcpProxy

PUBACK = 4
SUBACK = 9


class MqttProxy(TcpProxy):
    """Forwards MQTT connections, packet by packet.

    forbidden: says whether a packet of the client makes the proxy close the connection, as some brokers do at what they
    do not allow. closed: how often it did.
    """

    def __init__(self, to_port: int) -> None:
        super().__init__(to_port)
        self.swallowed = 0
        self._kind = PUBACK
        self._left = 0.0
        self._delay = 0.0
        self._reason: int | None = None
        self._refused_kind = PUBACK
        self.refused = 0
        self.forbidden: Callable[[bytes], bool] = lambda _packet: False
        self.closed = 0

    def drop_packets(self, count: float = float("inf"), kind: int = PUBACK) -> None:
        """Drop the next `count` packets of a kind; by default all, until `pass_all`."""
        self._kind, self._left = kind, count

    def pass_all(self) -> None:
        """Let all packets through again."""
        self._left = 0

    def delay(self, seconds: float) -> None:
        """Delay each acknowledgement of a message by so many seconds, one after the other."""
        self._delay = seconds

    def refuse(self, reason: int | None, kind: int = PUBACK) -> None:
        """Give each acknowledgement of a kind a reason code of MQTT 5; None leaves them as they are."""
        self._reason, self._refused_kind = reason, kind

    def _toward_server(self) -> Filter:
        buffer = bytearray()

        def through(content: bytes) -> Iterator[bytes]:
            for packet in _packets(buffer, content):
                if self.forbidden(packet):
                    self.closed += 1
                    raise ConnectionAbortedError
                yield packet

        return through

    def _toward_client(self) -> Filter:
        buffer = bytearray()

        def through(content: bytes) -> Iterator[bytes]:
            for packet in _packets(buffer, content):
                if self._left > 0 and packet[0] >> 4 == self._kind:
                    self._left -= 1
                    self.swallowed += 1
                    continue
                if packet[0] >> 4 == PUBACK:
                    time.sleep(self._delay)
                if self._reason is not None and packet[0] >> 4 == self._refused_kind:
                    self.refused += 1
                    no_properties = b"\0" if self._refused_kind == SUBACK else b""
                    body = packet[2:4] + no_properties + bytes([self._reason])
                    packet = bytes([packet[0], len(body)]) + body
                yield packet

        return through


def _packets(buffer: bytearray, content: bytes) -> Iterator[bytes]:
    """Return the packets that are complete with some more bytes; the rest stays in the buffer."""
    buffer.extend(content)
    while (length := packet_length(buffer)) is not None:
        packet = bytes(buffer[:length])
        del buffer[:length]
        yield packet


def packet_length(buffer: bytes | bytearray) -> int | None:
    """Return the length of the MQTT packet at the buffer's start, None while it is incomplete (MQTT 5, 2.1.4)."""
    remaining = 0
    for index, byte in enumerate(buffer[1:5]):
        remaining |= (byte & 0x7F) << 7 * index
        if not byte & 0x80:
            length = 2 + index + remaining
            return length if len(buffer) >= length else None
    return None
