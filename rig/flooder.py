"""A client that sends commands as fast as the broker accepts them, in a separate process of low priority.

    python -m rig.flooder PORT DEVICE KIND SECONDS      prints how many messages the broker has accepted

It uses MQTT 3.1.1 over a plain socket and sends prepared packets, so that the broker has the work and not this client:
a machine with two processors also has to run the service.
"""

import json
import os
import random
import socket
import struct
import subprocess
import sys
import time

KINDS = ("reload at QoS 0", "reload at QoS 1", "no JSON", "64 KiB")
"""Kinds of messages: reloads without a payload, random bytes for both commands, the longest accepted payload."""

BATCH = 200
"""Packets per prepared block; at QoS 1 all are acknowledged before the next block."""

LARGE_BATCH = 8
LONGEST = 65_536
NICENESS = 19
_PINGREQ, _PINGRESP_LENGTH, _PUBACK_LENGTH = b"\xc0\x00", 2, 4


def _packet(kind: int, body: bytes) -> bytes:
    """Fixed header, remaining length in groups of seven bits, body."""
    length, encoded = len(body), bytearray()
    while True:
        length, group = divmod(length, 128)
        encoded.append(group | (0x80 if length else 0))
        if not length:
            return bytes([kind]) + encoded + body


def _text(value: str) -> bytes:
    return struct.pack(">H", len(value)) + value.encode()


def _publish(topic: str, payload: bytes, number: int | None = None) -> bytes:
    """Return a PUBLISH packet, at QoS 1 if it has a number."""
    beside = b"" if number is None else struct.pack(">H", number)
    return _packet(0x30 if number is None else 0x32, _text(topic) + beside + payload)


def block(kind: str, device: str) -> tuple[bytes, int]:
    """Return a block of prepared packets of one kind, and their number."""
    reload, model = (f"edgemeta/{device}/cmd/{verb}" for verb in ("reload", "model"))
    chance = random.Random(7)
    numbers = range(1, (LARGE_BATCH if kind == KINDS[3] else BATCH) + 1)
    if kind == KINDS[0]:
        packets = [_publish(reload, b"") for _ in numbers]
    elif kind == KINDS[1]:
        packets = [_publish(reload, b"", number) for number in numbers]
    elif kind == KINDS[2]:
        packets = [_publish(chance.choice((reload, model)), chance.randbytes(100)) for _ in numbers]
    else:
        packets = [_publish(reload, bytes(LONGEST)) for _ in numbers]
    return b"".join(packets), len(packets)


def flood(port: int, device: str, kind: str, seconds: float) -> int:
    """Send for `seconds`, then until the broker answers a ping; return the number of messages."""
    packets, count = block(kind, device)
    acknowledged = kind == KINDS[1]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(_packet(0x10, _text("MQTT") + b"\x04\x02" + struct.pack(">H", 600) + _text("flooder")))
        _receive(connection, 4)
        sent, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            connection.sendall(packets)
            sent += count
            if acknowledged:
                _receive(connection, count * _PUBACK_LENGTH)
        connection.sendall(_PINGREQ)
        _receive(connection, _PINGRESP_LENGTH)
    return sent


def _receive(connection: socket.socket, length: int) -> None:
    """Read `length` bytes. Raises ConnectionError if the broker disconnects."""
    while length:
        got = len(connection.recv(length))
        if not got:
            raise ConnectionError("the broker closed the connection of the flooder")
        length -= got
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)  # else the broker keeps its next answers back


class Flooder:
    """`flood` in a separate process."""

    def __init__(self, port: int, device: str, kind: str, seconds: float) -> None:
        command = [sys.executable, "-m", "rig.flooder", str(port), device, kind, str(seconds)]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait(self, timeout: float) -> int:
        """Wait for the end; return how many messages the broker accepted. Raises RuntimeError on failure."""
        said, wrong = self._process.communicate(timeout=timeout)
        if self._process.returncode:
            raise RuntimeError(f"the flooder failed: {wrong.strip().splitlines()[-1]}")
        return int(json.loads(said)["messages"])

    def close(self) -> None:
        """Kill it if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


if __name__ == "__main__":
    os.nice(NICENESS)
    print(json.dumps({"messages": flood(int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4]))}))
