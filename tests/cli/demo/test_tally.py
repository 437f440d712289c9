"""Statistics of known messages."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from edgemeta.cli.demo.tally import Arrival, Tally

MakeFrame = Callable[..., Arrival]


def test_frames_are_counted_by_label_and_by_what_they_show(frame_arrival: MakeFrame) -> None:
    tally = Tally(lambda sequence: "ship" if sequence <= 3 else "horse")
    for sequence, label in enumerate(["ship", "ship", "truck", "horse", "horse"], start=1):
        tally.add(frame_arrival(sequence, label))
    assert tally.frames == 5
    assert tally.labels == {"ship": 2, "truck": 1, "horse": 2}
    assert tally.recognized("ship") == pytest.approx(2 / 3)
    summary = tally.summary()
    assert summary["recognition"] == {
        "ship": {"frames": 3, "right": 2, "rate": 0.6667},
        "horse": {"frames": 2, "right": 2, "rate": 1.0},
    }
    assert summary["labels"] == {"ship": 2, "horse": 2, "truck": 1}
    assert summary["received"] == 5
    assert summary["frames_per_second"] == 10.0
    assert summary["seconds"] == 0.4


def test_without_true_labels_there_is_no_recognition_rate(frame_arrival: MakeFrame) -> None:
    tally = Tally()
    tally.add(frame_arrival(1, "cat"))
    assert tally.summary()["recognition"] is None


@settings(deadline=None)
@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=300))
def test_percentiles_are_by_nearest_rank(values: list[int]) -> None:
    tally = Tally()
    tally.latencies["inference"].extend(values)
    ordered, n = sorted(values), len(values)
    assert tally.percentiles("inference") == (ordered[-(-50 * n // 100) - 1], ordered[-(-99 * n // 100) - 1])
    assert tally.percentiles("inference", newest=1) == (values[-1], values[-1])


def test_delivered_is_the_time_from_capture_to_receipt(frame_arrival: MakeFrame) -> None:
    tally = Tally()
    tally.add(frame_arrival(1, "cat", inference=70))
    assert tally.percentiles("delivered") == (2000, 2000)
    assert tally.percentiles("inference") == (70, 70)
    assert list(tally.stages()) == ["delay", "wait", "preprocess", "inference", "postprocess", "total", "delivered"]


def test_other_topics_are_kept_or_ignored(frame_arrival: MakeFrame) -> None:
    tally = Tally()
    frame = frame_arrival(1, "cat")
    tally.add(Arrival("edgemeta/demo/availability", b"online", frame.received))
    tally.add(Arrival("edgemeta/demo/camera/state", b"{}", frame.received))
    assert tally.availability == "online"
    assert tally.frames == 0


def test_a_message_that_breaks_the_schema_is_an_error(frame_arrival: MakeFrame) -> None:
    frame = frame_arrival(1, "cat")
    with pytest.raises(ValidationError):
        Tally().add(Arrival(frame.topic, frame.payload.replace(b'"sequence":1', b'"sequence":0'), frame.received))


def test_an_empty_tally_can_be_summed_up() -> None:
    summary = Tally().summary()
    assert summary["received"] == 0
    assert summary["latency_us"] == {}
    assert summary["model"] is None
