"""The process of one stream: opens it, and answers the service's questions with the newest pictures."""

import array
import contextlib
import fcntl
import math
import mmap
import os
import socket
import termios
import time
from collections.abc import Iterator

import av.error
import av.logging

from edgemeta.daemon.capture.sources.stream.decoder import BgrConverter, Decoded, Stream
from edgemeta.daemon.capture.sources.stream.failures import NO_VIDEO, EndedError, NoVideoError, TooLargeError, failed
from edgemeta.daemon.capture.sources.stream.limits import MemoryLimit
from edgemeta.daemon.capture.sources.stream.messages import (
    LARGEST_MESSAGE,
    NEXT,
    SOFTWARE,
    Decoder,
    Message,
    NoKeyFrame,
    Opened,
    Picture,
    Request,
    packed,
    unpacked,
)
from edgemeta.daemon.capture.sources.stream.tcp_probe import resolve, wait_for_answer
from edgemeta.daemon.capture.sources.stream.video_decoder import VideoPacket
from edgemeta.daemon.capture.stream_delay import StreamDelay
from edgemeta.daemon.runtime.clock import NS

REMIND_AFTER_NS = 1_000_000_000
"""How often the service is told that packets come, but no picture."""

UNDECODABLE = 10
"""So many whole pictures in a row that cannot be decoded are no video."""

LATE_NS = 2 * NS // 5
"""Delay of a packet from which on others may be left out."""
PATIENCE_NS = NS // 4
"""How long packets must have come late: what a line sends in one piece after a pause is decoded in less."""
WAITING = 32_768
"""So many bytes in the kernel mean that packets wait; what has just come of the next one is less."""
LONGEST_GROUP_NS = 4 * NS
"""Longest time from one key frame to the next in which to leave out packets: there is no picture meanwhile."""


FRESH = 0.5
"""Seconds after which the first answer of a snapshot address shows the past."""
MOST_KEPT = 32 << 20
"""Bytes of packets that are kept for a question at most: where key frames are rare all are decoded."""


class CatchUp:
    """Leaves out packets that a busy machine cannot decode in time, so that its pictures are fewer and not older.

    Where decoding is slower than the stream, packets wait in the kernel, then at the server, and each picture is older
    than the one before. So once packets come late for some time and more wait behind them, none is decoded until all
    that waits was read and a key frame comes. A line that is too slow looks different: nothing waits in the kernel, and
    nothing would be gained. server: descriptor of the connection to it; None decodes everything.
    """

    def __init__(self, server: int | None) -> None:
        self._server = server
        self._delay = StreamDelay()
        self._key_ns: int | None = None
        self._group_ns: int | None = None
        self._late_since_ns: int | None = None
        self._leaves_out = False

    def leaves_out(self, stream_ns: int | None, is_key_frame: bool, now_ns: int) -> bool:
        """Return whether a packet with this time in its stream, read now, must not be decoded."""
        if self._server is None or stream_ns is None:
            return False
        delay_ns = self._delay.add(now_ns, stream_ns)
        if is_key_frame:
            self._group_ns = None if self._key_ns is None else stream_ns - self._key_ns
            self._key_ns = stream_ns
        if self._leaves_out:
            self._leaves_out = not is_key_frame or self._others_wait
        elif delay_ns > LATE_NS and self._others_wait:
            since = self._late_since_ns = self._late_since_ns or now_ns
            is_near = self._group_ns is not None and 0 < self._group_ns <= LONGEST_GROUP_NS
            self._leaves_out = is_near and now_ns - since >= PATIENCE_NS
        else:
            self._late_since_ns = None
        return self._leaves_out

    @property
    def _others_wait(self) -> bool:
        """Whether the kernel has more packets than the one that is just coming."""
        assert self._server is not None
        size = array.array("i", [0])
        fcntl.ioctl(self._server, termios.FIONREAD, size)
        return size[0] >= WAITING


class ServiceEndedError(Exception):
    """The service has closed its end."""


class Reader:
    """Reads one stream. connection: to the service. memory: descriptor of the shared memory for pictures."""

    def __init__(self, connection: socket.socket, memory: int) -> None:
        self._connection = connection
        self._memory = memory
        self._map: mmap.mmap | None = None
        self._converter = BgrConverter()
        self._limit = MemoryLimit()
        self._pixels = 0
        self._way: str | None = None
        self._asked = False
        self._skipped = self._damaged = 0
        self._told_ns = 0

    def run(self) -> None:
        """Read until the stream or the service ends."""
        packet = self._connection.recv(LARGEST_MESSAGE)
        if not packet:
            return
        request = unpacked(packet)
        assert isinstance(request, Request)
        with contextlib.suppress(ServiceEndedError):
            self._read(request)

    def _read(self, request: Request) -> None:
        """Read until the stream ends, and tell why it did. Raises ServiceEndedError."""
        av.logging.set_level(av.logging.WARNING)
        opened = False
        began = time.monotonic()
        with av.logging.Capture() as log:
            try:
                if request.wait_for_server:
                    self._wait_for_server(request)
                if request.decode != SOFTWARE:
                    self._limit.lift()
                stream = Stream(request, log)
                opened = True
                if stream.decoder.way == SOFTWARE:
                    self._limit.set_for(0)
                self._tell(Opened(stream.is_one_picture), stream.server)
                if stream.is_one_picture:
                    self._poll(stream, request, log)
                if request.on_demand:
                    self._decode_when_asked(stream, log)
                self._follow(stream, log)
            except ServiceEndedError:
                raise
            except MemoryError:
                large = TooLargeError(f"sends a picture or part that needs more than {self._limit.spare >> 20} MiB")
                self._tell(failed(large, [], request, opened))
            except Exception as error:  # noqa: BLE001 - an unexpected one is raised again there
                late = not opened and time.monotonic() - began > request.timeout
                # FFmpeg has several errors for an answer that does not come in time.
                self._tell(failed(TimeoutError() if late else error, log, request, opened))

    def _name(self, stream: Stream) -> None:
        """Tell what decodes, once it does, and limit the memory to what software needs. Raises ServiceEndedError."""
        decoder = stream.decoder
        self._way = decoder.way
        if decoder.way == SOFTWARE:
            self._limit.set_for(self._pixels)
        self._tell(Decoder(decoder.way, decoder.reason))

    def _wait_for_server(self, request: Request) -> None:
        """Wait until the server answers to TCP; not behind a proxy, where only that may be reachable."""
        if request.address.startswith("http") and "http_proxy" in os.environ:
            return
        if not wait_for_answer(resolve(request.host, request.port), request.timeout):
            raise TimeoutError

    def _follow(self, stream: Stream, log: list[tuple[int, str, str]]) -> None:
        """Answer each question with the next picture that is decoded."""
        self._told_ns = time.monotonic_ns()
        catch_up = CatchUp(stream.server)
        for packet in stream.packets():
            self._look_for_question()
            is_late = catch_up.leaves_out(stream.time_of(packet), packet.is_keyframe, time.monotonic_ns())
            if is_late or (stream.is_intra_coded and not self._asked):
                self._skipped += 1
                continue
            pictures = stream.decode(packet)
            log.clear()
            if pictures and stream.decoder.way != self._way:
                self._name(stream)
            for picture in pictures:
                self._offer(picture, stream)
            if stream.is_intra_coded and stream.damaged >= UNDECODABLE and not self._pixels:
                raise NoVideoError(NO_VIDEO)
            if not pictures and time.monotonic_ns() - self._told_ns > REMIND_AFTER_NS:
                self._told_ns = time.monotonic_ns()
                self._tell(NoKeyFrame())

    def _decode_when_asked(self, stream: Stream, log: list[tuple[int, str, str]]) -> None:
        """Keep the packets since the last key frame; for a question decode them, and answer with the last picture.

        What was decoded is not kept, and what follows it goes on from there: no packet is decoded twice. A decoder may
        hold a picture until the next packet, so what it held since the question before does not answer this one.
        """
        kept: list[VideoPacket] = []
        size, begun = 0, False
        since: int | None = None
        for packet in stream.packets():
            begun = begun or packet.is_keyframe
            if packet.is_keyframe:
                kept.clear()
                size = 0
            if begun:
                kept.append(packet)
                size += packet.size
            self._look_for_question()
            if kept and (self._asked or size > MOST_KEPT):
                if self._asked and since is None:
                    since = stream.time_of(kept[0])
                pictures = [picture for each in kept for picture in stream.decode(each)]
                log.clear()
                kept.clear()
                size = 0
                held = since is not None and bool(pictures) and (pictures[-1].stream_ns or since) < since
                if self._asked and pictures and not held:
                    self._offer(pictures[-1], stream)
                    since = None
            if stream.decoder.way != self._way:
                self._name(stream)

    def _poll(self, stream: Stream, request: Request, log: list[tuple[int, str, str]]) -> None:
        """Answer each question with a new picture of a snapshot address. The first one is open already."""
        damaged, fresh_until = 0, time.monotonic() + FRESH
        while True:
            self._wait_for_question()
            if time.monotonic() > fresh_until:
                stream.close()
                stream = Stream(request, log)
            pictures = [picture for packet in _until_end(stream) for picture in stream.decode(packet)]
            damaged += stream.damaged
            stream.close()
            log.clear()
            for picture in pictures[-1:]:
                self._offer(picture, stream, damaged)
            fresh_until = -math.inf

    def _offer(self, picture: Decoded, stream: Stream, damaged: int | None = None) -> None:
        """Give the picture to the service if it has asked for one. damaged: so far, if not by this stream alone."""
        frame = picture.frame
        if frame.width * frame.height != self._pixels:
            self._pixels = frame.width * frame.height
            if self._way in (None, SOFTWARE):
                self._limit.set_for(self._pixels)
        if not self._asked:
            self._skipped += 1
            return
        made = self._converter.convert(frame, stream.divisor(frame))
        plane = made.planes[0]
        stride = plane.line_size
        self._share(memoryview(plane)[: stride * made.height])
        self._asked = False
        self._told_ns = time.monotonic_ns()
        times, counts = (picture.captured_ns, picture.stream_ns), (stream.damaged if damaged is None else damaged,)
        self._tell(Picture(made.width, made.height, stride, *times, *counts, self._skipped))

    def _share(self, pixels: memoryview) -> None:
        """Copy a picture into the shared memory, which grows if it must."""
        if self._map is None or len(self._map) < len(pixels):
            os.ftruncate(self._memory, len(pixels))
            self._map = mmap.mmap(self._memory, len(pixels))
        self._map[: len(pixels)] = pixels

    def _look_for_question(self) -> None:
        """See whether the service has asked. Raises ServiceEndedError."""
        while not self._asked:
            try:
                self._take_question(socket.MSG_DONTWAIT)
            except BlockingIOError:
                return

    def _wait_for_question(self) -> None:
        while not self._asked:
            self._take_question(0)

    def _take_question(self, flags: int) -> None:
        try:
            packet = self._connection.recv(len(NEXT), flags)
        except ConnectionResetError:
            packet = b""
        if packet != NEXT:
            raise ServiceEndedError
        self._asked = True

    def _tell(self, message: Message, descriptor: int | None = None) -> None:
        """Send a message. Raises ServiceEndedError."""
        try:
            if descriptor is None:
                self._connection.send(packed(message))
            else:
                socket.send_fds(self._connection, [packed(message)], [descriptor])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ServiceEndedError from error


def _until_end(stream: Stream) -> Iterator[VideoPacket]:
    """Yield the packets of a stream that may end."""
    try:
        yield from stream.packets()
    except (EndedError, av.error.FFmpegError):
        return  # a server that names no length ends its answer by closing the connection: an error to FFmpeg
