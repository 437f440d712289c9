"""One stream through PyAV (FFmpeg): opened within a deadline, decoded by one thread, every picture in its own size."""

import os
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import av.logging
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation, VideoReformatter

from edgemeta.daemon.capture.reduction import Reduction
from edgemeta.daemon.capture.sources.stream.failures import EndedError, LogLines, NoVideoError, TooLargeError
from edgemeta.daemon.capture.sources.stream.messages import LARGEST_PIXELS, SOFTWARE, Request
from edgemeta.daemon.capture.sources.stream.video_decoder import VideoDecoder, VideoPacket

# FFmpeg analyses a stream for up to 5 s before it gives the first picture, which is then old: half a second (in
# microseconds) is enough to find codec and size.
OPTIONS = {"analyzeduration": "500000", "max_pixels": str(LARGEST_PIXELS), "threads": "1"}

TRANSPORTS = {"tcp": "tcp", "udp": "udp", "multicast": "udp_multicast"}
"""FFmpeg's names of the transports of RTSP. TCP loses no packets on the way."""

DATAGRAMS = {"buffer_size": str(1 << 20), "overrun_nonfatal": "1"}
"""Bytes that the kernel keeps (at most net.core.rmem_max); what is lost all the same damages pictures, and no more."""

LARGEST_PACKET = 64 << 20
"""Bytes of one encoded picture. FFmpeg takes a part of any claimed length; where memory ends it gives what it has."""

READ_MARGIN = 2.0
"""Seconds beyond the request's timeout after which a read is given up; the service has ended this process by then."""

ONE_THREAD = {"threads": 1} if int(av.__version__.partition(".")[0]) >= 17 else {}
"""Older conversions have no threads."""

NO_TIMESTAMPS = 0x0080
"""AVFMT_NOTIMESTAMPS: the format has no times; FFmpeg invents some."""

END_OF_JPEG, END_WITHIN = b"\xff\xd9", 64
"""The end marker of a JPEG and in how many last bytes it is: cameras fill up with zeros. What is cut is drawn gray."""


@dataclass(frozen=True)
class Decoded:
    """A picture and its times, as in `Frame`."""

    frame: VideoFrame
    captured_ns: int
    stream_ns: int | None


class Stream:
    """An open stream. Raises FFmpeg's errors, NoVideoError, EndedError."""

    def __init__(self, request: Request, log: LogLines) -> None:
        options = OPTIONS | {"rtsp_transport": TRANSPORTS[request.transport], "tls_verify": str(int(request.verify))}
        if request.transport != "tcp" or request.address.startswith("udp:"):
            options |= DATAGRAMS
        if request.ca_file is not None:
            options["ca_file"] = request.ca_file
        self._log = log
        before = _sockets()
        self._container = av.open(
            request.address, timeout=(request.timeout, request.timeout + READ_MARGIN), options=options
        )
        if not self._container.streams.video:
            kinds = ", ".join(sorted({stream.type for stream in self._container.streams})) or "nothing"
            raise NoVideoError(f"has no video, only {kinds}")
        self._video = self._container.streams.video[0]
        wanted = SOFTWARE if self.is_one_picture else request.decode
        self._reduction = Reduction(*request.reduction)
        self.decoder = VideoDecoder(self._video, wanted, LARGEST_PIXELS, self._reduction)
        self._timed = not (self._container.format.flags & NO_TIMESTAMPS or self.is_one_picture)
        self.server = next(iter(_sockets() - before), None)
        """Descriptor of the connection to the server, if there is one."""
        self.damaged = 0

    @property
    def is_one_picture(self) -> bool:
        """Whether it is the answer of a snapshot address: one picture, no stream of them."""
        name = self._container.format.name
        return name == "image2" or name.endswith("_pipe")

    @property
    def is_intra_coded(self) -> bool:
        """Whether each packet is a whole picture, so that others may be left out."""
        return self._video.codec_context.name == "mjpeg"

    def packets(self) -> Iterator[VideoPacket]:
        """Yield packets as they arrive. Raises TooLargeError, and EndedError at the end."""
        for packet in self._container.demux(self._video):
            if packet.size > LARGEST_PACKET:
                found = f"{packet.size >> 20} MiB or more"
                raise TooLargeError(f"sends a picture of {found}, expected at most {LARGEST_PACKET >> 20} MiB")
            if packet.size:
                yield packet
        raise EndedError

    def decode(self, packet: VideoPacket) -> list[Decoded]:
        """Decode a packet that has just arrived to no or some pictures."""
        captured_ns = time.monotonic_ns()
        errors = len(self._log)
        try:
            frames = self.decoder.decode(packet)
        except av.error.InvalidDataError:
            frames = []
            self.damaged += 1
        else:
            failed = any(level <= av.logging.ERROR for level, _, _ in self._log[errors:])
            cut = self.is_intra_coded and END_OF_JPEG not in bytes(memoryview(packet)[-END_WITHIN:])
            self.damaged += failed or cut or any(frame.is_corrupt for frame in frames)
        return [Decoded(frame, captured_ns, self._nanoseconds(frame.pts, frame.time_base)) for frame in frames]

    def divisor(self, frame: VideoFrame) -> int:
        """Return by what the sides of a decoded picture are still to be divided."""
        halvings = self.decoder.halvings
        return self._reduction.divisor(frame.width << halvings, frame.height << halvings) >> halvings or 1

    def time_of(self, packet: VideoPacket) -> int | None:
        """Return when a packet is to be decoded, in ns of the stream's clock; None where the stream has no times."""
        return self._nanoseconds(packet.dts, packet.time_base)

    def _nanoseconds(self, units: int | None, unit: Fraction | None) -> int | None:
        return None if not self._timed or units is None or unit is None else int(units * unit * 1_000_000_000)

    def close(self) -> None:
        """Close the connection."""
        self._container.close()


class BgrConverter:
    """Converts pictures to BGR and makes them smaller, with the same tables as long as the size stays."""

    def __init__(self) -> None:
        self._reformatter = VideoReformatter()

    def convert(self, frame: VideoFrame, divisor: int) -> VideoFrame:
        """Return the picture as BGR, its sides divided; its only plane has rows of `line_size` bytes."""
        size = frame.width // divisor, frame.height // divisor
        return self._reformatter.reformat(frame, *size, "bgr24", interpolation=Interpolation.AREA, **ONE_THREAD)


def _sockets() -> set[int]:
    """Descriptors of this process's TCP connections."""
    found = set()
    for path in Path("/proc/self/fd").iterdir():
        descriptor = int(path.name)
        try:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as one:
                if one.family in (socket.AF_INET, socket.AF_INET6) and one.type == socket.SOCK_STREAM:
                    found.add(descriptor)
        except OSError:  # the descriptor of this listing itself
            continue
    return found
