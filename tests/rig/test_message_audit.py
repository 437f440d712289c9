"""The message audit (rig/message_audit.py): would it detect a loss, a repetition, a growth?"""

from typing import Any

import pytest

from reliability import soak
from rig.message_audit import MessageAudit, RecordedFrame, check_stream


def seen(number: int, superseded: int = 0) -> RecordedFrame:
    return RecordedFrame(number, f"state {number // 3}", {"superseded": superseded, "outbox": 0})


def test_a_loss_would_be_detected() -> None:
    """Planted: one frame, one state, one drop too many."""
    frames = {number: seen(number) for number in range(1, 10)}
    states = {1, 3, 6, 9}
    whole = check_stream(frames, states, killed=False)
    assert (whole.frames, whole.lost_frames, whole.lost_states) == (9, 0, 0)
    without_frame = {number: one for number, one in frames.items() if number != 5}
    assert check_stream(without_frame, states, killed=False).lost_frames == 1
    assert check_stream(frames, states - {3}, killed=True).lost_states == 1
    assert check_stream(frames, states - {9}, killed=True).lost_states == 0
    assert check_stream(frames, states - {9}, killed=False).lost_states == 1
    accounted = without_frame | {9: seen(9, superseded=1)}
    assert check_stream(accounted, states, killed=False).lost_frames == 0
    assert check_stream(frames | {9: seen(9, superseded=1)}, states, killed=False).lost_frames == 1


def frame(number: int, sequence: int, **keys: Any) -> dict[str, Any]:
    content = {"boot": "a", "id": number, "sequence": sequence, "historical": False, "state": None, "dropped": {}}
    return content | {"captured": f"2026-01-01T00:00:{sequence:02d}Z"} | keys


def test_a_repeated_message_must_be_unchanged() -> None:
    audit = MessageAudit()
    for content in (frame(1, 1), frame(3, 2), frame(3, 2, historical=True)):
        audit.take("frame", "front", content)
    assert (audit.repeated, audit.historical, audit.contradictions) == (1, 1, 0)
    audit.take("frame", "front", frame(4, 2))  # a second message about the same frame
    assert audit.contradictions == 1
    audit.take("frame", "front", frame(1, 5))  # another frame under an id that was used
    assert audit.contradictions == 2


def test_frames_withheld_are_accounted_for() -> None:
    audit = MessageAudit()
    audit.take("frame", "front", frame(1, 1))
    audit.take("frame", "front", frame(2, 5, withheld=2, dropped={"failed": 1}))
    (result,) = audit.results(set()).values()
    assert (result.lost_frames, result.missing) == (0, {"withheld": 2, "failed": 1})


def test_growth_of_one_process_would_be_detected() -> None:
    quiet = {"rss_kib": 90_000, "threads": 10, "files": 20, "children": 0}
    held = [{"pid": 1, **quiet}, {"pid": 1, **quiet, "files": 27}, {"pid": 2, **quiet, "threads": 12}]
    grown = soak.growth(held)
    assert {kind: one["greatest_growth"] for kind, one in grown.items()} == {
        "rss_kib": 0,
        "threads": 0,
        "files": 7,
        "children": 0,
    }
    whole = {"lost": {"frames": 0}, "late": [], "contradictions": 0, "tracebacks": 0}
    assert soak.verdict(whole | {"held_at_quiet_points": grown}) == ["files grew by 7 in one process, allowed are 6"]
    assert soak.verdict(whole | {"held_at_quiet_points": {}, "late": ["start"], "lost": {"frames": 2}}) == [
        "2 lost: frames",
        "later than promised: start",
    ]


def test_faults_have_distinct_names() -> None:
    names = [fault.name for fault in soak.FAULTS]
    assert len(names) == len(set(names)) > 15


@pytest.mark.parametrize("seed", [1, 2])
def test_each_fault_comes_once_before_any_comes_again(seed: int) -> None:
    suite = soak.Suite(None, soak.FAULTS, seed)
    drawn = []
    while len(drawn) < len(soak.FAULTS):
        drawn += suite._choose()
    assert sorted(one.name for one in drawn) == sorted(one.name for one in soak.FAULTS)
