"""A video file as a camera: the clip of the shared data, and invalid files."""

import os
from pathlib import Path

import numpy as np
import pytest

from edgemeta.daemon.capture.source import SourceEnded, SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.capture.sources.video import VideoSource
from edgemeta.daemon.config.source_address import SourceAddress


@pytest.fixture
def clip(shared_data: Path) -> Path:
    """795 frames of 480x360 at 10 frames per second."""
    return shared_data / "video" / "vtest_480x360.avi"


def test_every_frame_of_the_clip_then_the_end(clip: Path) -> None:
    source = make_source(SourceSpec(SourceAddress(str(clip))))
    assert isinstance(source, VideoSource)
    source.open()
    assert source.interval_ns == 100_000_000
    shapes = set()
    frames = 0
    with pytest.raises(SourceEnded):  # noqa: PT012 - counts up to the end
        while True:
            shapes.add(source.read().pixels.shape)
            frames += 1
    source.close()
    assert (frames, shapes) == (795, {(360, 480, 3)})


def test_a_loop_restarts_with_the_first_frame(clip: Path) -> None:
    source = make_source(SourceSpec(SourceAddress(str(clip)), fps=0.0, loop=True))
    source.open()
    assert source.interval_ns == 0
    first = source.read().pixels
    for _ in range(794):
        source.read()
    assert np.array_equal(source.read().pixels, first)
    source.close()


def test_the_rate_can_be_set(clip: Path) -> None:
    source = make_source(SourceSpec(SourceAddress(f"file://{clip}"), fps=30.0))
    source.open()
    assert source.interval_ns == 33_333_333
    source.close()


def test_frames_belong_to_the_receiver(clip: Path) -> None:
    source = make_source(SourceSpec(SourceAddress(str(clip))))
    source.open()
    first = source.read().pixels
    kept = first.copy()
    for _ in range(5):
        source.read()
    assert np.array_equal(first, kept)
    source.close()


def test_files_that_are_not_videos(tmp_path: Path) -> None:
    gone = tmp_path / "gone.avi"
    with pytest.raises(SourceError, match=r"gone\.avi does not exist, expected a video file"):
        make_source(SourceSpec(SourceAddress(str(gone)))).open()
    text = tmp_path / "text.avi"
    text.write_text("some text\n" * 100)
    with pytest.raises(SourceError, match=r"text\.avi cannot be decoded, expected a video file"):
        make_source(SourceSpec(SourceAddress(str(text)))).open()
    pipe = tmp_path / "pipe.avi"
    os.mkfifo(pipe)
    with pytest.raises(SourceError, match="is not a regular file"):
        make_source(SourceSpec(SourceAddress(str(pipe)))).open()


def test_a_truncated_clip_delivers_its_frames_then_ends(clip: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.avi"
    cut.write_bytes(clip.read_bytes()[:200_000])
    source = make_source(SourceSpec(SourceAddress(str(cut))))
    source.open()
    frames = 0
    with pytest.raises(SourceEnded):  # noqa: PT012 - counts up to the end
        while True:
            source.read()
            frames += 1
    assert 0 < frames < 795
