"""What the service and the process of a stream say to each other over their socket, one packet per message.

The pictures themselves lie in memory that both share. The service asks for each picture, the process answers with the
next one that it decodes: so a picture is never older than the question, and none waits in a queue.
"""

import json
import struct
from dataclasses import asdict, dataclass
from typing import TypeAlias

LARGEST_PIXELS = 40_000_000
"""Most pixels of a picture; 8K has 33 million."""

LARGEST_MESSAGE = 65_536

SOFTWARE, AUTO = "software", "auto"
"""What decodes, as `decode` of the config has it, beside names of devices."""

NEXT = b"next"
"""The service's question for a picture."""


@dataclass(frozen=True)
class Request:
    """The stream to open; the first message to a process.

    timeout: seconds until an attempt to open counts as failed. wait_for_server: whether the server's answer to TCP is
    awaited first, with attempts so close that its return is noticed at once. transport: of RTSP, `tcp`, `udp` or
    `multicast`. decode: `decode` of the config. on_demand: whether packets are decoded only where a picture of them
    is asked for. reduction: the fields of a Reduction.
    """

    address: str
    host: str
    port: int
    timeout: float
    wait_for_server: bool = False
    ca_file: str | None = None
    verify: bool = True
    transport: str = "tcp"
    decode: str = SOFTWARE
    on_demand: bool = False
    reduction: tuple[int, float, float, bool] = (1, 0.0, 0.0, False)


@dataclass(frozen=True)
class Opened:
    """The stream is open. polled: it gives one picture per request. The message carries the socket to the server."""

    polled: bool


@dataclass(frozen=True)
class Decoder:
    """What decodes from now on: `software`, or a device. reason: why it is not what was asked for."""

    way: str
    reason: str | None


@dataclass(frozen=True)
class Picture:
    """A picture lies in the shared memory: rows of `stride` bytes, BGR. Times as in `Frame`.

    damaged: errors of the decoder and incomplete pictures so far; skipped: pictures that nobody asked for, so far.
    """

    width: int
    height: int
    stride: int
    captured_ns: int
    stream_ns: int | None
    damaged: int
    skipped: int


@dataclass(frozen=True)
class NoKeyFrame:
    """Packets come, but no picture can be decoded before the next key frame."""


@dataclass(frozen=True)
class Failed:
    """The stream cannot be opened or has ended; the process ends. reason: completes "stream ADDRESS …".

    retry: a `Retry`. unanswered: whether the server gave no answer at all.
    """

    reason: str
    retry: str
    unanswered: bool = False


Message: TypeAlias = Request | Opened | Decoder | Picture | NoKeyFrame | Failed
_KINDS = {kind.__name__: kind for kind in (Request, Opened, Decoder, NoKeyFrame, Failed)}


_PICTURE, _PICTURE_BEGINS = struct.Struct("=IIIqqQQ?"), b"P"
"""Of the fields of a Picture, whose packets come with every frame; no JSON begins so."""


def packed(message: Message) -> bytes:
    """Return a message as one packet."""
    if not isinstance(message, Picture):
        return json.dumps([type(message).__name__, asdict(message)]).encode()
    size, counts = (message.width, message.height, message.stride), (message.damaged, message.skipped)
    times = message.captured_ns, message.stream_ns or 0
    return _PICTURE_BEGINS + _PICTURE.pack(*size, *times, *counts, message.stream_ns is not None)


def unpacked(packet: bytes) -> Message:
    """Return the message of a packet. Raises ValueError, KeyError or TypeError for anything else."""
    if packet[:1] != _PICTURE_BEGINS:
        kind, fields = json.loads(packet)
        return _KINDS[kind](**fields)
    if len(packet) != 1 + _PICTURE.size:
        raise ValueError(f"a picture of {len(packet)} bytes, expected {1 + _PICTURE.size}")
    width, height, stride, captured_ns, stream_ns, damaged, skipped, is_timed = _PICTURE.unpack_from(packet, 1)
    return Picture(width, height, stride, captured_ns, stream_ns if is_timed else None, damaged, skipped)
