"""Decodes the packets of a stream: on a device where the config asks for one and it works, in software otherwise.

A device is given up for the rest of the stream where it fails, also in the middle: the software decoder begins at the
next key frame. Pictures of a device are copied to memory, so nothing behind this file knows of it.
"""

from typing import TypeAlias

import av.error
from av.codec import Codec, CodecContext
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from edgemeta.daemon.capture.reduction import WHOLE, Reduction
from edgemeta.daemon.capture.sources.stream.messages import AUTO, SOFTWARE

VideoPacket: TypeAlias = "Packet[VideoStream]"

ACCELERATED = ("cuda", "vaapi")
"""Devices that FFmpeg's own decoders use; the others have decoders of their own, such as `h264_v4l2m2m`."""
TRIED = (*ACCELERATED, "qsv", "v4l2m2m")
"""In this order by `auto`."""

MOST_BAD, MOST_SILENT = 10, 100
"""Packets in a row, from a key frame on, that a device may call invalid, or for which it may give no picture."""


class VideoDecoder:
    """The decoder of one stream. wanted: `software`, a device, or `auto` for the first device that opens.

    reduction: of pictures in software, which a JPEG is decoded to: half of it is slower than the whole (FFmpeg 8).
    """

    def __init__(self, video: VideoStream, wanted: str, most_pixels: int, reduction: Reduction = WHOLE) -> None:
        self._software = codec = video.codec_context
        self._options = {"max_pixels": str(most_pixels)}
        divisor = reduction.divisor(codec.width, codec.height) if codec.name == "mjpeg" and wanted == SOFTWARE else 1
        self.halvings = divisor.bit_length() - 1 if divisor > 2 else 0
        """How often both sides of decoded pictures were halved, rounded up."""
        if self.halvings:
            self._options["lowres"] = str(self.halvings)
        self._software.thread_count = 1
        self._software.options = self._options
        self._codec = self._software
        self._waits = self._gave = False
        self._bad = self._silent = 0
        self._left = list(TRIED) if wanted == AUTO else [wanted]
        self._failed: list[str] = []
        self.way = SOFTWARE
        """What decodes: `software`, or a device."""
        self.reason: str | None = None
        """Why it is not what was wanted."""
        if wanted != SOFTWARE:
            self._open_next()

    def _open_next(self) -> None:
        """Open the first device of those left that can be; software where none can."""
        self._codec, self.way = self._software, SOFTWARE
        while self._left and self.way == SOFTWARE:
            way, *self._left = self._left
            try:
                self._codec, self.way = self._device(way), way
            except (av.error.FFmpegError, OSError, LookupError, ValueError, NotImplementedError) as error:
                self._failed.append(f"{way}: {_shown(error)}")
        if self.way == SOFTWARE:
            self.reason = f"no device decodes {self._software.name} here ({'; '.join(self._failed)})"

    def _device(self, way: str) -> VideoCodecContext:
        """An open decoder of a device. Raises what FFmpeg raises, and NotImplementedError for one that it lacks."""
        name = self._software.name
        if way in ACCELERATED:
            try:
                from av.codec.hwaccel import HWAccel
            except ImportError:
                raise NotImplementedError("PyAV before version 14") from None
            made = CodecContext.create(Codec(name, "r"), "r", HWAccel(way, allow_software_fallback=False))
            if not made.is_hwaccel:
                raise NotImplementedError("FFmpeg was built without it")
        else:
            made = CodecContext.create(Codec(f"{name}_{way}", "r"), "r")
        assert isinstance(made, VideoCodecContext)
        made.extradata = self._software.extradata
        made.width, made.height = self._software.width, self._software.height
        made.options = self._options
        made.open()
        return made

    def decode(self, packet: VideoPacket) -> list[VideoFrame]:
        """Decode a packet to no or some pictures. Raises av.error.InvalidDataError for one that is damaged."""
        self._waits = self._waits and not packet.is_keyframe
        if self._waits:
            return []
        if self.way == SOFTWARE:
            return self._software.decode(packet)
        try:
            return self._by_device(packet)
        except _DeviceError as error:
            self._replace(str(error))
            return self.decode(packet)

    def _replace(self, reason: str) -> None:
        """Go on without the device: with the next one where it has given no picture, in software otherwise."""
        self._waits = True
        self._failed.append(f"{self.way}: {reason}")
        if self._gave:
            self._left.clear()
        self._open_next()
        if self._gave:
            self.reason = f"a device failed in the middle ({self._failed[-1]})"

    def _by_device(self, packet: VideoPacket) -> list[VideoFrame]:
        try:
            frames = self._codec.decode(packet)
        except av.error.InvalidDataError as error:
            self._bad += 1
            if self._bad < MOST_BAD:
                raise
            raise _DeviceError(_shown(error)) from error
        except (av.error.FFmpegError, OSError) as error:
            raise _DeviceError(_shown(error)) from error
        self._bad = 0
        self._gave = self._gave or bool(frames)
        self._silent = 0 if frames else self._silent + (self._silent > 0 or packet.is_keyframe)
        if self._silent > MOST_SILENT:
            raise _DeviceError(f"no picture of {MOST_SILENT} packets")
        return frames


class _DeviceError(Exception):
    """A device that does not decode what it should; the text says how."""


def _shown(error: Exception) -> str:
    """What an error of FFmpeg says, without names of files and with the last line of its log."""
    if isinstance(error, av.error.FFmpegError):
        return ": ".join(text.strip() for text in (error.strerror, error.log and str(error.log[-1])) if text)
    return str(error) or type(error).__name__
