"""The synthetic camera: its address, frame rate and frames."""

import numpy as np
import pytest

from edgemeta.daemon.capture.source import SourceError, SourceSpec
from edgemeta.daemon.capture.sources.registry import make_source
from edgemeta.daemon.capture.sources.synthetic import show_of
from edgemeta.daemon.config.source_address import SourceAddress
from edgemeta.plugins.drawn.show import Show


def test_it_delivers_the_frames_of_the_show_and_restarts_when_reopened() -> None:
    source = make_source(SourceSpec(SourceAddress("synthetic://?seed=7")))
    show = Show(seed=7)
    for _ in range(2):
        source.open()
        for number in range(3):
            assert np.array_equal(source.read().pixels, show.frame(number))
        source.close()


def test_capture_times_rise() -> None:
    source = make_source(SourceSpec(SourceAddress("synthetic://")))
    source.open()
    first, second = source.read(), source.read()
    assert 0 < first.captured_ns < second.captured_ns


@pytest.mark.parametrize(("fps", "interval"), [(None, 33_333_333), (10.0, 100_000_000), (0.0, 0)])
def test_its_frame_rate(fps: float | None, interval: int) -> None:
    assert make_source(SourceSpec(SourceAddress("synthetic://"), fps=fps)).interval_ns == interval


def test_the_scene_length_is_in_seconds_of_thirty_frames() -> None:
    show = show_of(SourceAddress("synthetic://?scene=0.2"))
    assert [show.truth(number) for number in (0, 5, 6)] == ["airplane", "airplane", "ship"]


@pytest.mark.parametrize(
    ("address", "found"),
    [
        ("synthetic://?seed=-1", "'-1'"),
        ("synthetic://?seed=", "''"),
        ("synthetic://?seed=1e9", "'1e9'"),
        ("synthetic://?seed=" + "9" * 30, "9" * 30),
        ("synthetic://?scene=0", "'0'"),
        ("synthetic://?scene=nan", "'nan'"),
        ("synthetic://?scene=long", "'long'"),
        ("synthetic://?colour=red", "'colour'"),
        ("synthetic://host/path", "has a host or path"),
    ],
)
def test_an_invalid_address_is_an_error_in_one_sentence(address: str, found: str) -> None:
    with pytest.raises(SourceError) as error:
        make_source(SourceSpec(SourceAddress(address)))
    assert found in str(error.value)
    assert str(error.value).startswith("source synthetic://")
    assert "\n" not in str(error.value)
