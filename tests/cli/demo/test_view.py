"""The output of the views."""

from collections.abc import Callable

import pytest

from edgemeta.cli.demo.command import choose_view
from edgemeta.cli.demo.tally import Arrival, Tally
from edgemeta.cli.demo.view import LineView, QuietView

MakeFrame = Callable[..., Arrival]


@pytest.fixture
def tally(frame_arrival: MakeFrame) -> Tally:
    tally = Tally(lambda sequence: "ship" if sequence <= 3 else "horse")
    for sequence, label in enumerate(["ship", "ship", "truck", "horse", "horse"], start=1):
        tally.add(frame_arrival(sequence, label))
    return tally


def test_lines_and_summary(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    with LineView() as view:
        view.show(tally)
        view.show(tally)  # within the same second: no second line
        view.show(tally, last=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "frame      5  horse 87.5% (shown: horse)  10.0 frames/s  2.0 ms"
    assert lines[1].startswith("5 frame messages in 0.4 s, 0 frames dropped")
    assert "ship              2 of 3 frames named right (66.7%)" in lines
    assert "delivered    p50    2000 us   p99    2000 us" in lines
    assert max(map(len, lines)) <= 80


def test_each_change_of_state_has_a_line(
    tally: Tally, event_arrival: MakeFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    with LineView() as view:
        tally.add(event_arrival(3, "ship", None, None))
        view.show(tally)
        view.show(tally)
        tally.add(event_arrival(5, None, "ship"))
        view.show(tally)
        view.show(tally, last=True)
    lines = capsys.readouterr().out.splitlines()
    events = [line for line in lines if line.startswith("event")]
    assert events == ["event      3  ship", "event      5  nothing sure after 2.5 s of ship"]
    assert "2 changes of state" in lines


def test_without_a_frame_there_are_no_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with LineView() as view:
        view.show(Tally())
    assert capsys.readouterr().out == ""


def test_lines_without_a_truth_count_labels(frame_arrival: MakeFrame, capsys: pytest.CaptureFixture[str]) -> None:
    tally = Tally()
    tally.add(frame_arrival(1, "cat"))
    LineView().show(tally, last=True)
    assert "cat               1 frames" in capsys.readouterr().out


def test_the_quiet_view_writes_nothing(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    with choose_view(quiet=True, terminal=True, frame_of=lambda _: None) as view:
        assert isinstance(view, QuietView)
        view.show(tally)
        view.show(tally, last=True)
    assert capsys.readouterr().out == ""


def test_a_pipe_gets_lines() -> None:
    assert isinstance(choose_view(quiet=False, terminal=False, frame_of=lambda _: None), LineView)
