"""A small RTMP server: it answers what a player asks, and plays one FLV file over and over."""

import io
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fractions import Fraction

import av
import numpy as np

RATE, HANDSHAKE, COMMAND = 25, 1536, 20
"""Frames per second; bytes of each part of the handshake; type of a message that is a command."""
WHOLE = 1 << 20
"""Bytes of a chunk: each message is one."""


def flv(frames: int = 25) -> list[tuple[int, int, bytes]]:
    """Type, milliseconds and content of each tag of pictures of 64x48 pixels."""
    memory = io.BytesIO()
    with av.open(memory, "w", format="flv") as container:
        stream = container.add_stream("flv1", rate=RATE)
        stream.width, stream.height, stream.pix_fmt, stream.time_base = 64, 48, "yuv420p", Fraction(1, RATE)
        stream.gop_size = 5
        for number in range(frames):
            frame = av.VideoFrame.from_ndarray(np.full((72, 64), 8 * number + 20, np.uint8), "yuv420p")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    data, at, tags = memory.getvalue(), 13, []
    while at < len(data):
        length = int.from_bytes(data[at + 1 : at + 4], "big")
        tags.append((data[at], int.from_bytes(data[at + 4 : at + 7], "big"), data[at + 11 : at + 11 + length]))
        at += length + 15
    return tags


def amf(*values: object) -> bytes:
    """Texts, numbers, None and mappings of texts in AMF0."""
    parts = []
    for value in values:
        match value:
            case str():
                parts.append(b"\x02" + struct.pack(">H", len(value)) + value.encode())
            case float():
                parts.append(b"\x00" + struct.pack(">d", value))
            case dict():
                pairs = b"".join(struct.pack(">H", len(key)) + key.encode() + amf(each) for key, each in value.items())
                parts.append(b"\x03" + pairs + b"\x00\x00\x09")
            case _:
                parts.append(b"\x05")
    return b"".join(parts)


def message(kind: int, content: bytes, milliseconds: int = 0, stream: int = 0) -> bytes:
    head = milliseconds.to_bytes(3, "big") + len(content).to_bytes(3, "big") + bytes([kind])
    return b"\x03" + head + stream.to_bytes(4, "little") + content


CONNECTED = {"level": "status", "code": "NetConnection.Connect.Success"}
STARTED = {"level": "status", "code": "NetStream.Play.Start"}
ANSWERS = {
    b"connect": message(COMMAND, amf("_result", 1.0, None, CONNECTED)),
    b"createStream": message(COMMAND, amf("_result", 2.0, None, 1.0)),
    b"play": message(COMMAND, amf("onStatus", 0.0, None, STARTED), stream=1),
}


def play(connection: socket.socket) -> None:
    """Serve one player until it leaves."""
    with connection, suppress(OSError):
        hello = connection.recv(1 + HANDSHAKE, socket.MSG_WAITALL)
        connection.sendall(b"\x03" + bytes(HANDSHAKE) + hello[1:])
        connection.recv(HANDSHAKE, socket.MSG_WAITALL)
        connection.sendall(b"\x02" + message(1, WHOLE.to_bytes(4, "big"))[1:])
        asked = b""
        for name, answer in ANSWERS.items():
            while amf(name.decode()) not in asked:
                asked += connection.recv(4096)
            connection.sendall(answer)
        tags, begun = flv(), 0
        while True:
            for kind, milliseconds, content in tags:
                connection.sendall(message(kind, content, begun + milliseconds, 1))
                time.sleep(1 / RATE)
            begun += 1000


@contextmanager
def rtmp_server() -> Iterator[str]:
    """Yield the address of a server for one player."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=lambda: play(listener.accept()[0]))
        thread.start()
        yield f"rtmp://127.0.0.1:{listener.getsockname()[1]}/live/camera"
        thread.join()
