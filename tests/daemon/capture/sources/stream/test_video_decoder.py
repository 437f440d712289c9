"""What decodes a stream: devices that are missing or fail are replaced by software, which is said."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from av.codec import Codec, CodecContext

from edgemeta.daemon.capture.source import SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.capture.sources.stream.messages import LARGEST_PIXELS, SOFTWARE, Decoder
from edgemeta.daemon.capture.sources.stream.source import StreamSource
from edgemeta.daemon.capture.sources.stream.video_decoder import TRIED, VideoDecoder, VideoPacket
from edgemeta.daemon.config.source_address import SourceAddress

GROUP, PICTURES = 5, 30
no_device = pytest.mark.skipif(any(Path("/dev").glob("video*")), reason="a V4L2 device may decode here")


@pytest.fixture
def clip(tmp_path: Path) -> Iterator[Any]:
    """The video stream of an open file with a key frame every GROUP pictures, each brighter than the one before."""
    path = tmp_path / "clip.ts"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg2video", rate=10)
        stream.width, stream.height, stream.pix_fmt, stream.gop_size = 64, 48, "yuv420p", GROUP
        for number in range(PICTURES):
            frame = av.VideoFrame.from_ndarray(np.full((72, 64), 20 + 5 * number, np.uint8), "yuv420p")
            frame.pts = number
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with av.open(str(path)) as container:
        yield container.streams.video[0]


def packets_of(video: Any) -> list[VideoPacket]:
    """All packets of a file."""
    return [packet for packet in video.container.demux(video) if packet.size]


def device(name: str) -> Callable[..., CodecContext]:
    """What opens a real decoder in place of a device's."""

    def opened(decoder: VideoDecoder, way: str) -> CodecContext:
        made = CodecContext.create(Codec(name, "r"), "r")
        made.open()
        return made

    return opened


def test_software_is_what_decodes_unless_asked(clip: Any) -> None:
    decoder = VideoDecoder(clip, SOFTWARE, LARGEST_PIXELS)
    assert (decoder.way, decoder.reason) == (SOFTWARE, None)
    assert sum(len(decoder.decode(packet)) for packet in packets_of(clip)) >= PICTURES - 1


@no_device
@pytest.mark.parametrize("wanted", ["v4l2m2m", "vaapi"])
def test_a_device_that_is_missing_is_named(clip: Any, wanted: str) -> None:
    decoder = VideoDecoder(clip, wanted, LARGEST_PIXELS)
    assert decoder.way == SOFTWARE
    assert decoder.reason is not None
    assert decoder.reason.startswith(f"no device decodes mpeg2video here ({wanted}: ")
    assert len(decoder.decode(packets_of(clip)[0])) <= 1


def test_auto_takes_the_first_device_that_opens(clip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def opened(decoder: VideoDecoder, way: str) -> CodecContext:
        tried.append(way)
        if way != "qsv":
            raise NotImplementedError("FFmpeg was built without it")
        return device("mpeg2video")(decoder, way)

    monkeypatch.setattr(VideoDecoder, "_device", opened)
    decoder = VideoDecoder(clip, "auto", LARGEST_PIXELS)
    assert (decoder.way, decoder.reason, tried) == ("qsv", None, list(TRIED[:3]))


def test_a_device_that_fails_in_the_middle_is_replaced_from_the_next_key_frame(
    clip: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VideoDecoder, "_device", device("mpeg2video"))
    packets = packets_of(clip)
    decoder, shown = VideoDecoder(clip, "cuda", LARGEST_PIXELS), []
    fails, key = [number for number, packet in enumerate(packets) if packet.is_keyframe][1:3]
    for number, packet in enumerate(packets):
        if number == fails + 1:
            decoder._codec.decode(None)  # it has ended, and refuses every packet from now on
        frames = decoder.decode(packet)
        shown += [(decoder.way, round(frame.to_ndarray()[0, 0] / 5) - 4) for frame in frames]
    assert decoder.way == SOFTWARE
    assert decoder.reason == "a device failed in the middle (cuda: End of file)"
    by_software = [picture for way, picture in shown if way == SOFTWARE]
    assert by_software == list(range(key, key + len(by_software)))
    assert len(by_software) >= PICTURES - key - 1


def test_a_device_that_understands_nothing_is_given_up(clip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(VideoDecoder, "_device", device("h264"))
    decoder, invalid, pictures = VideoDecoder(clip, "cuda", LARGEST_PIXELS), 0, 0
    for packet in packets_of(clip):
        try:
            pictures += len(decoder.decode(packet))
        except av.error.InvalidDataError:
            invalid += 1
    assert decoder.way == SOFTWARE
    assert pictures >= PICTURES - invalid - GROUP - 1 > 0


@no_device
@pytest.mark.parametrize(("wanted", "level"), [("v4l2m2m", logging.WARNING), ("auto", logging.INFO)])
def test_a_stream_says_once_what_decodes_it(
    wanted: Any,
    level: int,
    rtsp_server: Callable[[int], Any],
    free_port: Callable[[], int],
    caplog: pytest.LogCaptureFixture,
) -> None:
    port = free_port()
    rtsp_server(port)
    source = make_source(SourceSpec(SourceAddress(f"rtsp://127.0.0.1:{port}/cam"), timeout=20, decode=wanted))
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            source.open()
            frame = source.read()
            source.close()
    said = [record for record in caplog.records if "is decoded" in record.message]
    if wanted == "auto" and frame.decoder != SOFTWARE:
        pytest.skip(f"{frame.decoder} decodes here")
    assert [(record.levelno, frame.decoder) for record in said] == [(level, SOFTWARE)]
    assert f"stream rtsp://127.0.0.1:{port} is decoded in software: " in said[0].message
    assert "no device decodes h264 here (" in said[0].message
    assert "v4l2m2m: " in said[0].message


def test_a_device_that_ends_the_process_is_not_tried_again() -> None:
    source = make_source(SourceSpec(SourceAddress("rtsp://127.0.0.1:1/cam"), timeout=2, decode="auto"))
    assert isinstance(source, StreamSource)
    source._note(Decoder("cuda", None))
    assert source._request().decode == "auto"
    source._breaks = True
    assert source._request().decode == SOFTWARE
