"""Many MQTT clients in one process: devices that publish as fast as a broker acknowledges, a subscriber that counts.

They speak MQTT 3.1.1 as bytes on sockets of one event loop, so that thousands cost little beside the broker.
"""

import asyncio
import struct
from dataclasses import dataclass, field

PUBLISH, ACKNOWLEDGED = 0x30, 0x40
WINDOW = 10
"""Messages of a device that wait for their acknowledgement; when all have it, as many follow."""


def packet(kind: int, body: bytes) -> bytes:
    """An MQTT packet: kind with flags, length, body."""
    length, digits = len(body), bytearray()
    while not digits or length:
        length, digit = length >> 7, length & 0x7F
        digits.append(digit | (0x80 if length else 0))
    return bytes([kind, *digits]) + body


def text(value: str) -> bytes:
    """A text as MQTT writes it: two bytes of length, UTF-8."""
    return struct.pack(">H", len(value.encode())) + value.encode()


def connect(name: str, will: str = "") -> bytes:
    """The packet CONNECT of a clean session without keep-alive; `will` is the topic of a retained last will."""
    flags, payload = (0x26, text(will) + text("offline")) if will else (0x02, b"")
    return packet(0x10, text("MQTT") + bytes([4, flags, 0, 0]) + text(name) + payload)


class _Client(asyncio.Protocol):
    """Counts the packets that come, by kind, after CONNACK."""

    def __init__(self, hello: bytes) -> None:
        self.hello = hello
        self.ready = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None
        self.count = self.bytes = 0
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.hello)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ready.done():
            self.ready.set_exception(exc or ConnectionError("the broker closed the connection"))

    def data_received(self, data: bytes) -> None:
        data, at = self._rest + data, 0
        while (end := self._end(data, at)) is not None:
            self.packet_received(data[at], end - at)
            at = end
        self._rest = data[at:]

    @staticmethod
    def _end(data: bytes, at: int) -> int | None:
        """Where the packet that begins at `at` ends; None if it is not complete."""
        length = shift = 0
        for place in range(at + 1, min(at + 5, len(data))):
            length |= (data[place] & 0x7F) << shift
            if data[place] < 0x80:
                end = place + 1 + length
                return end if end <= len(data) else None
            shift += 7
        return None

    def packet_received(self, kind: int, length: int) -> None:
        if kind & 0xF0 == 0x20 and not self.ready.done():
            self.ready.set_result(None)
        elif kind & 0xF0 == self.counted:
            self.count += 1
            self.bytes += length

    counted = PUBLISH


class _Device(_Client):
    counted = ACKNOWLEDGED

    def __init__(self, hello: bytes, window: bytes) -> None:
        super().__init__(hello)
        self._window = window
        self.sends = False

    def packet_received(self, kind: int, length: int) -> None:
        super().packet_received(kind, length)
        if self.sends and kind & 0xF0 == ACKNOWLEDGED and self.count % WINDOW == 0:
            self.start()

    def start(self) -> None:
        self.sends = True
        assert self.transport is not None
        self.transport.write(self._window)


@dataclass
class Crowd:
    """`devices` clients of a broker at a loopback port, each with a topic of its own and messages of one content."""

    port: int
    devices: int
    payload: bytes
    clients: list[_Device] = field(default_factory=list)
    subscriber: _Client | None = None

    async def join(self) -> None:
        """Connect a subscriber of everything at QoS 0, and all devices, some at a time. Raises OSError."""
        loop = asyncio.get_running_loop()
        hello = connect("crowd-subscriber") + packet(0x82, b"\0\1" + text("crowd/#") + b"\0")
        _, self.subscriber = await loop.create_connection(lambda: _Client(hello), "127.0.0.1", self.port)
        await self.subscriber.ready
        for start in range(0, self.devices, 50):
            made = [self._connected(number) for number in range(start, min(start + 50, self.devices))]
            self.clients += await asyncio.gather(*made)

    async def _connected(self, number: int) -> _Device:
        name = f"crowd/device-{number:05}"
        topic = text(f"{name}/front/frame")
        window = b"".join(
            packet(PUBLISH | 0x02, topic + struct.pack(">H", each + 1) + self.payload) for each in range(WINDOW)
        )
        hello = connect(f"crowd-{number}", f"{name}/availability")
        make = asyncio.get_running_loop().create_connection(lambda: _Device(hello, window), "127.0.0.1", self.port)
        _, client = await make
        await client.ready
        return client

    async def publish(self, seconds: float) -> tuple[int, int]:
        """Let all devices publish at QoS 1 for so long; returns acknowledged and received messages."""
        assert self.subscriber is not None
        before = sum(client.count for client in self.clients), self.subscriber.count
        for client in self.clients:
            client.start()
        await asyncio.sleep(seconds)
        for client in self.clients:
            client.sends = False
        await asyncio.sleep(0.5)
        return sum(client.count for client in self.clients) - before[0], self.subscriber.count - before[1]

    def leave(self) -> None:
        """Close all connections."""
        for client in (*self.clients, self.subscriber):
            if client is not None and client.transport is not None:
                client.transport.abort()
