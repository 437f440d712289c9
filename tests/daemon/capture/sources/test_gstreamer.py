"""Real GStreamer pipelines; the pipeline of a CSI camera's address."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from ctypes.util import find_library
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.capture.source import Source, SourceError, SourceSpec
from edgemeta.daemon.capture.sources.gst_process import PROGRAM
from edgemeta.daemon.capture.sources.gstreamer import GstreamerSource, parse
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.config.source_address import AddressError, SourceAddress


@pytest.fixture
def gstreamer() -> None:
    if find_library("gstapp-1.0") is None:
        pytest.skip("GStreamer is not installed (Debian packages gstreamer1.0-plugins-base gstreamer1.0-plugins-good)")


pytestmark = pytest.mark.usefixtures("gstreamer")


def opened(address: str, timeout: float = 60.0) -> Source:
    source = make_source(SourceSpec(SourceAddress(address), timeout=timeout))
    source.open()
    return source


def processes() -> set[int]:
    """The processes of pipelines that this test has."""
    mine = Path("/proc/self/task").iterdir()
    children = {int(pid) for task in mine for pid in (task / "children").read_text().split()}
    return {pid for pid in children if str(PROGRAM) in Path(f"/proc/{pid}/cmdline").read_text()}


@pytest.mark.parametrize(("width", "height"), [(64, 48), (50, 20), (1, 1), (641, 3), (1920, 1080)])
def test_frames_of_any_width_arrive_complete(width: int, height: int) -> None:
    """Rows of widths that are no multiple of 4 are padded by GStreamer: a red picture is red everywhere, twice."""
    pattern = "videotestsrc pattern=red num-buffers=2"
    source = opened(f"gstreamer://{pattern} ! video/x-raw,format=BGR,width={width},height={height}")
    for _ in range(2):
        frame = source.read()
        assert frame.pixels.flags.c_contiguous
        assert frame.pixels.dtype == np.uint8
        np.testing.assert_array_equal(frame.pixels, np.broadcast_to((0, 0, 255), (height, width, 3)))
        assert 0 <= time.monotonic_ns() - frame.captured_ns < 10**10
    with pytest.raises(SourceError, match="pipeline gstreamer://videotestsrc gives no more frames"):
        source.read()
    source.close()


def test_pixels_are_those_of_gstreamer() -> None:
    """Six bars, compared with the same pipeline's file."""
    source = opened(
        "gstreamer://videotestsrc pattern=smpte75 num-buffers=1 ! video/x-raw,format=BGR,width=70,height=30"
    )
    pixels = source.read().pixels
    source.close()
    bars = [tuple(int(value) for value in pixels[5, 5 + 10 * n]) for n in range(7)]
    strong = [tuple(value > 100 for value in bar) for bar in bars]
    white, yellow, cyan, green = (True, True, True), (False, True, True), (True, True, False), (False, True, False)
    magenta, red, blue = (True, False, True), (False, False, True), (True, False, False)
    assert strong == [white, yellow, cyan, green, magenta, red, blue]


def test_each_frame_belongs_to_the_receiver() -> None:
    source = opened("gstreamer://videotestsrc pattern=snow num-buffers=3 ! video/x-raw,width=64,height=48")
    first = source.read().pixels
    kept = first.copy()
    assert not np.array_equal(source.read().pixels, kept)
    assert np.array_equal(first, kept)
    source.close()


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("gstreamer://nosuchelement ! x", 'pipeline gstreamer://nosuchelement: no element "nosuchelement"'),
        (
            "gstreamer://v4l2src device=/dev/video97",
            "v4l2src: Cannot identify device '/dev/video97'",
        ),
        ("gstreamer://videotestsrc ! audioconvert", "could not link videotestsrc0 to audioconvert0"),
        ("gstreamer://videotestsrc pattern=gray10000", "pipeline gstreamer://videotestsrc: could not set property"),
        ("csi://0", 'camera csi://0: no element "nvarguscamerasrc"'),
    ],
)
def test_errors_contain_gstreamers_message(address: str, reason: str) -> None:
    source = opened(address)
    with pytest.raises(SourceError, match=reason):
        source.read()
    source.close()
    assert not processes()


def test_a_pipeline_without_frames_is_stopped_after_its_timeout() -> None:
    """`valve drop=true` lets no picture through, as a camera without light on its bus."""
    source = opened("gstreamer://videotestsrc is-live=true ! valve drop=true", timeout=0.5)
    with pytest.raises(SourceError, match=r"gave no frame for 0\.5 s"):
        source.read()
    assert len(processes()) == 1
    source.close()
    assert not processes()


@pytest.mark.gate("5 s: it waits for a process that hangs")
def test_a_stopped_process_is_killed_and_the_next_one_continues() -> None:
    """A stopped process hears no SIGINT: it is killed, and nothing of it is left."""
    source = opened("gstreamer://videotestsrc is-live=true ! video/x-raw,width=64,height=48", timeout=5.0)
    source.read()
    (process,) = processes()
    os.kill(process, signal.SIGSTOP)
    with pytest.raises(SourceError, match="gave no frame for 5 s"):  # noqa: PT012 - some are still in the pipe
        while True:
            source.read()
    source.close()
    assert not processes()
    source.open()
    assert source.read().pixels.shape == (48, 64, 3)
    source.close()


def test_a_process_that_dies_is_reported_at_once() -> None:
    source = opened("gstreamer://videotestsrc is-live=true ! video/x-raw,width=64,height=48")
    source.read()
    (process,) = processes()
    os.kill(process, signal.SIGKILL)
    with pytest.raises(SourceError, match="gives no more frames"):  # noqa: PT012
        while True:
            source.read()
    source.close()


def test_a_change_of_frame_size_is_an_error() -> None:
    """Two sources one after the other, of different sizes."""
    first = "videotestsrc num-buffers=3 ! video/x-raw,width=64,height=48"
    second = "videotestsrc num-buffers=300 ! video/x-raw,width=32,height=24"
    source = opened(f"gstreamer://concat name=c {first} ! c. {second} ! c. c.")
    with pytest.raises(SourceError, match="pipeline gstreamer://concat changed its frame size from 64x48 to 32x24"):  # noqa: PT012
        for _ in range(100):
            source.read()
    source.close()


def test_many_openings_leak_nothing() -> None:
    source = make_source(SourceSpec(SourceAddress("gstreamer://nosuchelement"), timeout=60))
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(20):
        source.open()
        with pytest.raises(SourceError):
            source.read()
        source.close()
    assert not processes()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_without_gstreamer_the_error_names_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / PROGRAM.name
    program.write_text(PROGRAM.read_text().replace("libgstapp-1.0", "libgstnone-1.0"))
    monkeypatch.setattr("edgemeta.daemon.capture.sources.gst_process.PROGRAM", program)
    source = opened("csi://0")
    with pytest.raises(SourceError, match=r"camera csi://0: libgstnone.*Debian package gstreamer1.0-plugins-base"):
        source.read()
    source.close()


def test_a_password_is_neither_in_the_process_list_nor_in_an_error() -> None:
    """Of a pipeline whose element does not know the property, GStreamer's message quotes it."""
    source = opened("gstreamer://videotestsrc is-live=true name=geheim ! video/x-raw,width=64,height=48")
    source.read()
    (process,) = processes()
    for file in ("cmdline", "environ"):
        assert b"geheim" not in Path(f"/proc/{process}/{file}").read_bytes()
    source.close()
    for wrong in ("pattern=geheim", "! geheim2=x,geheim", "pattern='geh eim' geheim"):
        source = opened(f"gstreamer://videotestsrc {wrong} ! fakesink")
        with pytest.raises(SourceError) as error:
            source.read()
        source.close()
        assert "geh" not in str(error.value), error.value


def test_the_program_ends_with_the_one_that_started_it() -> None:
    pipeline = b"".join(b"%s\0" % word for word in (b"videotestsrc", b"is-live=true", b"!", b"valve", b"drop=true"))
    starter = (
        "import os, subprocess, sys; subprocess.Popen([*sys.argv[1:], str(os.getpid())], stdin=0, stdout=2, stderr=2)"
    )
    subprocess.run(
        [sys.executable, "-c", starter, sys.executable, "-I", "-S", str(PROGRAM)],
        input=b"%d\n%s" % (len(pipeline), pipeline),
        capture_output=True,
        timeout=60,
        check=True,
    )  # waits for the end of standard error, which the program holds


def test_a_csi_address_is_the_argus_pipeline() -> None:
    name, pipeline, _ = parse(SourceSpec(SourceAddress("csi://1?width=640&height=480&flip=2"), fps=21))
    assert name == "camera csi://1"
    assert " ".join(pipeline) == (
        "nvarguscamerasrc sensor-id=1 ! video/x-raw(memory:NVMM),width=640,height=480,framerate=21000/1000 "
        "! nvvidconv flip-method=2 ! video/x-raw,format=BGRx"
    )


@pytest.mark.parametrize(
    ("spec", "found"),
    [
        (SourceSpec(SourceAddress("csi://")), "is not a CSI camera"),
        (SourceSpec(SourceAddress("csi://[")), r"is not a URL, "),
        (SourceSpec(SourceAddress("csi://front")), "is not a CSI camera"),
        (SourceSpec(SourceAddress("csi://0/x")), "is not a CSI camera"),
        (SourceSpec(SourceAddress("csi://0?wide=1")), "unknown key 'wide'"),
        (SourceSpec(SourceAddress("csi://0?flip=8")), "flip '8', expected 0 to 7"),
        (SourceSpec(SourceAddress("csi://0"), fps=0), "sets its own frame rate"),
        (SourceSpec(SourceAddress("gstreamer://")), "pipeline is empty"),
        (SourceSpec(SourceAddress("gstreamer://a 'b")), "has an open quotation mark"),
        (SourceSpec(SourceAddress("gstreamer://videotestsrc"), fps=5), "sets its own frame rate"),
    ],
)
def test_invalid_addresses(spec: SourceSpec, found: str) -> None:
    with pytest.raises(SourceError, match=found):
        make_source(spec)


@given(rest=st.text(max_size=40), scheme=st.sampled_from(["csi", "gstreamer"]))
def test_any_address_is_a_source_or_a_source_error(rest: str, scheme: str) -> None:
    with suppress(SourceError, AddressError):
        assert isinstance(make_source(SourceSpec(SourceAddress(f"{scheme}://{rest}"))), GstreamerSource)
