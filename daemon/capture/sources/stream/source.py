"""A network camera, read in a process of its own.

RTSP, RTMP, MPEG-TS over UDP, or HTTP (MJPEG, snapshots, or any container FFmpeg knows).
"""

import logging
import os
import ssl
from dataclasses import astuple

from edgemeta.daemon.capture.retry import Retry
from edgemeta.daemon.capture.source import Frame, SourceError, SourceSilentError, SourceSpec, SourceWaiting
from edgemeta.daemon.capture.sources.stream.busy_link import BusyLink
from edgemeta.daemon.capture.sources.stream.messages import (
    AUTO,
    SOFTWARE,
    Decoder,
    Failed,
    Message,
    NoKeyFrame,
    Opened,
    Picture,
    Request,
)
from edgemeta.daemon.capture.sources.stream.process import ProcessEndedError, StreamProcess
from edgemeta.daemon.capture.sources.stream.server_watch import ServerWatch
from edgemeta.daemon.runtime.awake import AWAKE
from edgemeta.daemon.runtime.clock import NS
from edgemeta.daemon.runtime.deadline import Deadline

log = logging.getLogger(__name__)

SILENT_AFTER = 0.5
"""Seconds without a frame after which the connection to the server is looked at, and how often after that."""
LOOK_EVERY = 0.25

OPENING_MARGIN = 1.0
"""Seconds beyond its timeout that a process has to say itself why the stream does not open."""

POLLED_FPS = 1.0
"""Pictures per second of a snapshot address without `fps`."""

KEY_FRAME_WITHIN = 120.0
"""Seconds that a key frame is awaited while packets come."""


class StreamSource:
    """A live stream. The server sets the frame rate; a snapshot address is asked for `fps` pictures per second."""

    live = True

    def __init__(self, spec: SourceSpec) -> None:
        self._name = f"stream {spec.address}"
        if spec.fps is not None and not (spec.address.scheme.startswith("http") and spec.fps > 0):
            raise SourceError(f"{self._name} sets its own frame rate, expected no `fps`")
        self._spec = spec
        self._process: StreamProcess | None = None
        self._watch: ServerWatch | None = None
        self._link: BusyLink | None = None
        self._unanswered = False
        self._used = ""
        self._decoder = Decoder(SOFTWARE, None)
        self._breaks = False
        self._polled = self._opened = False
        self._key_frame_by = Deadline(KEY_FRAME_WITHIN)

    @property
    def interval_ns(self) -> int:
        """Nanoseconds between two requests to a snapshot address, 0 for a stream; known after the first frame."""
        return round(NS / (self._spec.fps or POLLED_FPS)) if self._polled else 0

    def open(self) -> None:
        """Start a process for the stream. Raises SourceError."""
        self._polled = self._opened = False
        try:
            self._process = StreamProcess(self._request())
        except OSError as error:
            raise SourceError(f"{self._name} has no process of its own: {error.strerror or error}") from error
        self._unanswered = False
        self._key_frame_by = Deadline(KEY_FRAME_WITHIN)
        if not self._spec.on_demand:
            self._process.ask()

    def open_stream(self) -> None:
        """Wait until the stream is open, without asking for a picture. Raises SourceError."""
        deadline = Deadline(self._spec.timeout + OPENING_MARGIN)
        while not self._opened:
            self.look(deadline.left)
            if not deadline.left:
                raise SourceSilentError(f"{self._name} did not answer for {self._spec.timeout:g} s")

    def look(self, seconds: float = 0.0) -> None:
        """Take what the process says while no picture is asked for. Raises SourceError, SourceWaiting."""
        try:
            if self._process is not None and (message := self._process.receive(seconds)) is not None:
                self._take(self._process, message)
        except ProcessEndedError as error:
            raise SourceError(f"{self._name} {error}") from error

    def read(self) -> Frame:
        """Return the next frame. Raises SourceError on failure or after the timeout, SourceWaiting for a key frame."""
        process = self._process
        if process is None:
            raise SourceError(f"{self._name} is not open")
        if self._polled or self._spec.on_demand:
            process.ask()
        try:
            picture = self._next_picture(process)
            pixels = process.pixels(picture)
        except ProcessEndedError as error:
            self._breaks = self._breaks or self._decoder.way != SOFTWARE
            raise SourceError(f"{self._name} {error}") from error
        if not (self._polled or self._spec.on_demand):
            process.ask()
        self._key_frame_by = Deadline(KEY_FRAME_WITHIN)
        self._unanswered = False
        if picture.stream_ns is not None:
            self._link = None  # the stream's times say how late it is
        busy = self._link is not None and self._link.busy
        times, counts = (picture.captured_ns, picture.stream_ns), (picture.damaged, picture.skipped)
        return Frame(pixels, *times, *counts, link_busy=busy, decoder=self._decoder.way)

    def _request(self) -> Request:
        """Return what the process needs to know. Raises SourceError."""
        spec, tls = self._spec, self._spec.tls
        if tls.ca_file is not None and not os.access(tls.ca_file, os.R_OK):
            raise SourceError(f"{self._name} needs the certificates in {tls.ca_file}, which cannot be read")
        ca_file = tls.ca_file or ssl.get_default_verify_paths().cafile
        self._used = text = spec.target().text
        patience = spec.timeout / AWAKE.rate  # the process has no more of the processor than the service
        waits = self._unanswered and spec.address.scheme != "udp"  # which nothing answers
        address, decode = spec.address, SOFTWARE if self._breaks else spec.decode
        server = address.host, address.port, patience, waits, ca_file, tls.verify
        return Request(text, *server, spec.transport, decode, spec.on_demand, astuple(spec.reduction))

    def _login_changed(self) -> bool:
        """Whether the files or variables of the login give another one than at the last opening."""
        try:
            return self._spec.target().text != self._used
        except SourceError:  # a file that is being written
            return False

    def _next_picture(self, process: StreamProcess) -> Picture:
        """Wait for a picture. Raises SourceError, SourceWaiting, ProcessEndedError."""
        deadline = Deadline(self._spec.timeout + (0.0 if self._opened else OPENING_MARGIN))
        look_in = SILENT_AFTER
        while deadline.left:
            until_look = self._link.look_in if self._link is not None else look_in
            message = process.receive(min(look_in, until_look, deadline.left))
            if isinstance(message, Picture):
                if self._watch is not None:
                    self._watch.forget()
                if self._link is not None:
                    self._link.came(message.captured_ns)
                return message
            if isinstance(message, Opened):
                deadline = Deadline(self._spec.timeout)
            self._take(process, message)
            if self._link is not None and not self._link.look_in:
                self._link.look()
                continue
            look_in = LOOK_EVERY
            if self._watch is not None and self._watch.returned():
                raise SourceError(f"{self._name} was unreachable; reconnecting")
        self._unanswered = True
        what = "gave no frame" if self._opened else "did not answer"
        raise SourceSilentError(f"{self._name} {what} for {self._spec.timeout:g} s")

    def _take(self, process: StreamProcess, message: Message | None) -> None:
        """Follow what the process says beside pictures. Raises SourceError, SourceWaiting."""
        match message:
            case Opened(polled=polled):
                self._follow(process, polled)
            case Decoder() as decoder:
                self._note(decoder)
            case NoKeyFrame():
                if not self._key_frame_by.left:
                    raise SourceError(f"{self._name} gave no key frame for {KEY_FRAME_WITHIN:g} s")
                raise SourceWaiting("waiting for a key frame")
            case Failed(reason, retry, unanswered):
                self._unanswered = unanswered
                raise SourceError(f"{self._name} {reason}", Retry(retry), self._login_changed)

    def _follow(self, process: StreamProcess, polled: bool) -> None:
        """Note that the stream is open. Raises SourceError if the config expects a snapshot address."""
        if self._spec.fps is not None and not polled:
            raise SourceError(f"{self._name} sets its own frame rate, expected no `fps`, which is for snapshots")
        self._opened, self._polled = True, polled
        if process.server is not None and not polled:
            self._watch, self._link = ServerWatch(process.server), BusyLink(process.server)

    def _note(self, decoder: Decoder) -> None:
        """Log once what decodes, where the config asks for a device."""
        before, self._decoder = self._decoder, decoder
        if decoder == before or self._spec.decode == SOFTWARE:
            return
        if decoder.way != SOFTWARE:
            log.info("%s is decoded by %s", self._name, decoder.way)
        else:
            reason = decoder.reason or "the device has ended the process before"
            level = logging.INFO if self._spec.decode == AUTO else logging.WARNING
            log.log(level, "%s is decoded in software: %s", self._name, reason)

    def close(self) -> None:
        """End the process."""
        if self._watch is not None:
            self._watch.forget()
            self._watch = self._link = None
        if self._process is not None:
            self._process.end()
            self._process = None
