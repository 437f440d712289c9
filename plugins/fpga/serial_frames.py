"""Frames of the serial line (kernels/fpga/rtl/serial.sv): written, and found again in a stream of bytes."""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from typing import TypeAlias

from edgemeta.kernels.fpga.generate.network import FpgaError

SYNC = b"EDG"
HELLO, IMAGE = b"?", b"I"
GREETING, ANSWER, REFUSAL = b"!", b"A", b"N"
"""Kinds: to the board, and from it."""

OVERHEAD = len(SYNC) + 10
"""Bytes of a frame beside its payload: sync and kind, number, length, CRC."""

_HEAD, _SUM = struct.Struct("<BI"), struct.Struct("<I")
_BEFORE = OVERHEAD - _SUM.size
"""Bytes before the payload."""

_GREETING = struct.Struct("<BBII32s")
VERSION = 1


@dataclass(frozen=True)
class Frame:
    """number: of the image (modulo 256), or of the hello that is answered."""

    kind: bytes
    number: int
    payload: bytes


@dataclass(frozen=True)
class Greeting:
    """What a board says of itself. credits: images that may be without an answer; bytes: of an image and its logits."""

    version: int
    credits: int
    in_bytes: int
    out_bytes: int
    digest: bytes

    @classmethod
    def of(cls, payload: bytes) -> "Greeting":
        """From the payload of a GREETING. Raises FpgaError for another version of the frames."""
        greeting = cls(*_GREETING.unpack(payload))
        if greeting.version != VERSION:
            raise FpgaError(f"the board speaks version {greeting.version} of the frames, expected {VERSION}")
        return greeting

    def payload(self) -> bytes:
        """The other way round."""
        return _GREETING.pack(*astuple(self))


def encode(frame: Frame, seed: int = 0) -> bytes:
    """The bytes of a frame. seed: what the CRC goes on from (`seed_of` in images and answers)."""
    covered = _HEAD.pack(frame.number, len(frame.payload)) + frame.payload
    return SYNC + frame.kind + covered + _SUM.pack(zlib.crc32(covered, seed))


def seed_of(digest: bytes) -> int:
    """First word of a model's digest, little endian: CRC-32 starts from its inverse."""
    return int.from_bytes(digest[:4], "little")


Kinds: TypeAlias = Mapping[bytes, tuple[int, int]]
"""Bytes of the payload and seed of the CRC, by kind."""


def from_board(answer: int, digest: bytes) -> Kinds:
    """Frames of a board. answer: bytes of the logits; digest: of the model file."""
    return {GREETING: (_GREETING.size, 0), ANSWER: (answer, seed_of(digest)), REFUSAL: (0, 0)}


class FrameReader:
    """Finds frames between whatever noise makes of them; `lost` counts bytes that belonged to none."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._bytes = bytearray()
        self.lost = 0

    @property
    def waiting(self) -> int:
        """Bytes that may be the beginning of a frame."""
        return len(self._bytes)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Frames that end in `data`. What looks like a frame and is none is searched for another one inside it."""
        self._bytes += data
        while self._bytes:
            found = self._first()
            if found is None:
                return
            if isinstance(found, Frame):
                yield found
            else:
                del self._bytes[0]
                self.lost += 1

    def _first(self) -> Frame | bool | None:
        """The frame at the start, taken out; False: none begins here; None: more bytes must tell."""
        sync, kind, rest = self._bytes[:3], bytes(self._bytes[3:4]), self._bytes[4:_BEFORE]
        if not SYNC.startswith(sync) or (kind and kind not in self._kinds):
            return False
        if len(rest) < _HEAD.size:
            return None
        number, said = _HEAD.unpack(rest)
        length, seed = self._kinds[kind]
        if said != length:
            return False
        if len(self._bytes) < OVERHEAD + length:
            return None
        covered = bytes(self._bytes[4 : _BEFORE + length])
        if _SUM.unpack_from(self._bytes, _BEFORE + length)[0] != zlib.crc32(covered, seed):
            return False
        del self._bytes[: OVERHEAD + length]
        return Frame(kind, number, covered[_HEAD.size :])
