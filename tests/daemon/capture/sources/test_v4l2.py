"""V4L2 devices: addresses, and a missing device. (No test machine has a camera.)"""

from contextlib import suppress

import cv2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from edgemeta.daemon.capture.source import SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import kind_of, make_source
from edgemeta.daemon.capture.sources.v4l2 import V4l2Source, parse
from edgemeta.daemon.config.source_address import AddressError, SourceAddress


def test_addresses() -> None:
    assert parse(SourceAddress("3")) == ("/dev/video3", {})
    size = {cv2.CAP_PROP_FRAME_WIDTH: 640, cv2.CAP_PROP_FRAME_HEIGHT: 480}
    assert parse(SourceAddress("v4l2:///dev/video0?width=640&height=480")) == ("/dev/video0", size)


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("v4l2://dev/video0", "is not a device"),
        ("v4l2:///etc/passwd", "is not a device"),
        ("v4l2:///dev/video0?size=1", "unknown key 'size'"),
        ("v4l2:///dev/video0?width=", "width ''"),
        ("v4l2:///dev/video0?width=-1", "width '-1'"),
        ("v4l2:///dev/video0?height=99999", "height '99999'"),
    ],
)
def test_invalid_addresses(address: str, found: str) -> None:
    with pytest.raises(SourceError, match=found):
        make_source(SourceSpec(SourceAddress(address)))


def test_a_live_camera_cannot_be_read_as_fast_as_possible() -> None:
    with pytest.raises(SourceError, match="sets its own frame rate"):
        make_source(SourceSpec(SourceAddress("0"), fps=0))


def test_a_missing_camera() -> None:
    source = make_source(SourceSpec(SourceAddress("99"), timeout=5))
    assert isinstance(source, V4l2Source)
    source.open()
    with pytest.raises(SourceError, match="camera /dev/video99 cannot be opened"):
        source.read()
    source.close()


@given(address=st.text(max_size=40) | st.from_regex(r"(v4l2|rtsp|http|synthetic|file|image)://\S{0,30}"))
@example("v4l2://[")
@example("synthetic://[")
def test_any_address_is_a_source_or_a_source_error(address: str) -> None:
    with suppress(SourceError, AddressError):
        assert make_source(SourceSpec(SourceAddress(address))).interval_ns >= 0


@pytest.mark.parametrize("address", ["0", "/dev/video0", "v4l2:///dev/video0"])
def test_a_device_has_three_forms_of_address(address: str) -> None:
    assert kind_of(SourceAddress(address)) == "v4l2"
    assert parse(SourceAddress(address)) == ("/dev/video0", {})


def test_unknown_schemes_are_refused() -> None:
    with pytest.raises(SourceError, match="source gopher://cam has an unknown scheme"):
        kind_of(SourceAddress("gopher://cam"))
