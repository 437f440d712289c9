"""How many of each label are present: agreement, thresholds with hysteresis, holding, zones, events."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from edgemeta.daemon.config.objects import ObjectsConfig, ZoneConfig
from edgemeta.daemon.inference.readers.reading import Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings, Rule
from edgemeta.daemon.inference.tracking.counts import CountTracker
from edgemeta.daemon.inference.tracking.tracker import Event, Tracked
from edgemeta.daemon.messages.events import EventKind

YARD = {"yard": ZoneConfig(polygon=[[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])}


def frame(*objects: tuple[str, float] | tuple[str, float, list[str]]) -> Reading:
    """A frame with objects: label, score, zones."""
    return Reading(
        objects=[
            {
                "label": each[0],
                "score": each[1],
                "box": (0.0, 0.0, 1.0, 1.0),
                "box_relative": (0.0, 0.0, 1.0, 1.0),
                "zones": each[2] if len(each) == 3 else [],
            }
            for each in objects
        ]
    )


def track(frames: Sequence[Reading], rule: Rule, every_ns: int = 10, **settings: Any) -> list[Tracked]:
    tracker, camera = CountTracker(), CameraSettings(3, rule, **settings)
    return [tracker.add(each, camera, number * every_ns) for number, each in enumerate(frames, 1)]


def events(tracked: list[Tracked]) -> list[Event]:
    return [event for each in tracked for event in each.events]


CAT, TWO = frame(("cat", 0.9)), frame(("cat", 0.9), ("cat", 0.8))
NONE = frame()


def test_a_count_needs_enough_frames_and_falls_when_enough_lack_it() -> None:
    tracked = track([NONE, CAT, TWO, TWO, CAT, NONE, NONE, NONE], Rule(2, 3))
    assert [each.counts for each in tracked] == [None, {}, {"cat": 1}, {"cat": 2}, {"cat": 2}, {"cat": 1}, {}, {}]
    assert [(event.kind, event.count, event.previous_count) for event in events(tracked)] == [
        (EventKind.APPEARED, 1, 0),
        (EventKind.APPEARED, 2, 1),
        (EventKind.GONE, 1, 2),
        (EventKind.GONE, 0, 1),
    ]
    assert [each.changed for each in tracked] == [False, True, True, True, False, True, True, False]


def test_a_change_says_how_long_the_count_before_lasted() -> None:
    first, second = events(track([CAT, CAT, NONE, NONE], Rule(2, 2), every_ns=100))
    assert (first.lasted_ns, second.lasted_ns) == (None, 200)
    assert (first.score, second.score) == (0.9, None)


def test_single_frames_change_nothing() -> None:
    assert events(track([NONE, NONE, CAT, NONE, NONE, CAT, NONE], Rule(2, 3))) == []


def test_objects_enter_at_one_score_and_leave_at_a_lower_one() -> None:
    weak, strong = frame(("cat", 0.6)), frame(("cat", 0.8))
    tracked = track([weak, strong, weak, frame(("cat", 0.5))], Rule(1, 1, enter=0.7, leave=0.55))
    assert [each.counts for each in tracked] == [{}, {"cat": 1}, {"cat": 1}, {}]


def test_the_score_of_a_label_replaces_the_rule_s() -> None:
    faint = frame(("cat", 0.3), ("dog", 0.3))
    (tracked,) = track([faint], Rule(1, 1, enter=0.7, leave=0.6), objects=ObjectsConfig(scores={"cat": 0.25}))
    assert tracked.counts == {"cat": 1}


def test_a_count_is_held() -> None:
    tracked = track([CAT, NONE, NONE, NONE], Rule(1, 1, hold_ns=30), every_ns=10)
    assert [each.counts for each in tracked] == [{"cat": 1}, {"cat": 1}, {"cat": 1}, {}]


def test_zones_have_counts_of_their_own() -> None:
    inside = frame(("cat", 0.9, ["yard"]), ("cat", 0.9))
    tracked = track([inside, CAT], Rule(1, 1), zones=YARD)
    assert [(each.counts, each.zones) for each in tracked] == [
        ({"cat": 2}, {"yard": {"cat": 1}}),
        ({"cat": 1}, {"yard": {}}),
    ]
    assert [(event.zone, event.kind) for event in tracked[1].events] == [
        (None, EventKind.GONE),
        ("yard", EventKind.GONE),
    ]


def test_a_zone_that_is_removed_is_forgotten() -> None:
    tracker, rule = CountTracker(), Rule(1, 1)
    tracker.add(frame(("cat", 0.9, ["yard"])), CameraSettings(3, rule, zones=YARD), 1)
    assert tracker.add(CAT, CameraSettings(3, rule), 2) == Tracked(counts={"cat": 1}, zones={})
    again = tracker.add(frame(("cat", 0.9, ["yard"])), CameraSettings(3, rule, zones=YARD), 3)
    assert [(event.zone, event.previous_count) for event in again.events] == [("yard", 0)]


def test_labels_of_a_multi_label_classification_are_present_or_not() -> None:
    wet = Reading([{"label": "wet", "score": 0.9}, {"label": "dark", "score": 0.8}])
    tracked = track([wet, wet, Reading([]), Reading([])], Rule(2, 2))
    assert [each.counts for each in tracked] == [None, {"wet": 1, "dark": 1}, {"wet": 1, "dark": 1}, {}]
    assert tracked[1].zones is None


@given(
    numbers=st.lists(st.integers(0, 4), min_size=1, max_size=30),
    window=st.integers(1, 7),
    share=st.floats(0.51, 1.0),
)
def test_a_count_is_what_enough_of_the_window_reach(numbers: list[int], window: int, share: float) -> None:
    agree = max(window // 2 + 1, round(share * window))
    tracked = track([frame(*[("cat", 1.0)] * number) for number in numbers], Rule(agree, window))
    for i, each in enumerate(tracked):
        recent = numbers[max(0, i + 1 - window) : i + 1]
        if len(recent) < agree:
            assert each.counts is None
            continue
        assert each.counts is not None
        count = each.counts.get("cat", 0)
        assert sum(number > count for number in recent) < agree
        assert sum(number < count for number in recent) < agree
        before = 0 if i == 0 else (tracked[i - 1].counts or {}).get("cat", 0)
        if count > before:
            assert sum(number >= count for number in recent) >= agree
        if count < before:
            assert sum(number <= count for number in recent) >= agree
    total = 0
    for event in events(tracked):
        assert event.previous_count == total
        assert event.count is not None
        total = event.count
