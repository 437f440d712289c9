"""Objects that are followed: ids, counts, zones, lines, standing, their best picture, and when all of them end."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from edgemeta.daemon.config.objects import LineConfig, ObjectsConfig, ZoneConfig
from edgemeta.daemon.config.tracking import TrackingConfig
from edgemeta.daemon.inference.readers.reading import Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings, Rule
from edgemeta.daemon.inference.tracking.detection import DetectionTracker
from edgemeta.daemon.inference.tracking.tracker import Event, Tracked
from edgemeta.daemon.messages.events import EventKind, ObjectChange
from edgemeta.daemon.messages.records import Fields
from edgemeta.daemon.runtime.clock import NS

SIZE = (640, 480)
YARD = {"yard": ZoneConfig(polygon=[[0.5, 0.0], [1.0, 0.0], [1.0, 1.0], [0.5, 1.0]], loitering_s=1.0)}
GATE = {"gate": LineConfig(points=[[0.5, 1.0], [0.5, 0.0]])}
SETTINGS = CameraSettings(3, Rule(2, 3, enter=0.5, leave=0.4), tracking=TrackingConfig(max_gap=1, stopped_after=2))


def person(x: float, score: float = 0.9, label: str = "person", width: float = 40) -> Fields:
    """An object of a frame message; its foot is at x."""
    box = (x - width / 2, 200.0, x + width / 2, 300.0)
    relative = tuple(side / (SIZE[number % 2]) for number, side in enumerate(box))
    zones = ["yard"] if x >= 320 else []
    return {
        "id": None,
        "label": label,
        "name": None,
        "score": score,
        "box": box,
        "box_relative": relative,
        "zones": zones,
    }


class Camera:
    """Frames every 100 ms."""

    def __init__(self, settings: CameraSettings = SETTINGS) -> None:
        self.tracker, self.settings, self.time = DetectionTracker(), settings, 0
        self.events: list[Event] = []

    def add(self, *objects: Fields, faint: Sequence[Fields] = (), after: float = 0.1) -> Tracked:
        self.time += int(after * NS)
        reading = Reading(objects=list(objects), faint=list(faint), size=SIZE)
        tracked = self.tracker.add(reading, self.settings, self.time)
        self.events += tracked.events
        return tracked

    @property
    def changes(self) -> list[tuple[str, str | None]]:
        """What objects did, and the zone or line."""
        return [(each.change.value, each.zone or each.line) for each in self.events if each.change is not None]


def test_ids_and_counts_are_those_of_confirmed_objects() -> None:
    camera = Camera()
    tracked = [camera.add(person(100), person(500)) for _ in range(3)]
    assert [list(each.ids) for each in tracked] == [[None, None], [1, 2], [1, 2]]
    assert [each.counts for each in tracked] == [None, {"person": 2}, {"person": 2}]
    assert [each.changed for each in tracked] == [False, True, False]
    assert {event.kind for event in camera.events} == {EventKind.OBJECT}


def test_a_flicker_changes_neither_counts_nor_ids_and_makes_no_events() -> None:
    camera = Camera()
    for number in range(100):
        camera.add(*([] if number % 3 == 2 else [person(100)]))
    assert camera.changes == [("begin", None), ("stopped", None)]


def test_faint_objects_continue_one_and_are_in_no_message() -> None:
    camera = Camera()
    for _ in range(3):
        camera.add(person(100))
    for _ in range(15):
        tracked = camera.add(faint=[person(100, score=0.2)])
    assert (tracked.counts, list(tracked.ids)) == ({"person": 1}, [])
    assert camera.changes == [("begin", None)]


@pytest.mark.parametrize(("score", "begins"), [(0.59, False), (0.6, True)])
def test_of_what_stays_only_what_scores_enough_begins(score: float, begins: bool) -> None:
    camera = Camera()
    for _ in range(5):
        camera.add(person(100, score))
    assert bool(camera.changes) is begins


@pytest.mark.parametrize(("score", "begins"), [(0.49, False), (0.5, True)])
def test_of_what_moves_only_what_scores_enough_begins(score: float, begins: bool) -> None:
    camera = Camera()
    for number in range(5):
        camera.add(person(100 + 25 * number, score))
    assert bool(camera.changes) is begins


def test_the_score_of_a_label_replaces_the_rule_s() -> None:
    camera = Camera(replace(SETTINGS, objects=ObjectsConfig(scores={"person": 0.3})))
    for _ in range(3):
        camera.add(person(100, 0.3))
    assert camera.changes == [("begin", None)]


def walk(camera: Camera, start: int, end: int, step: int = 10) -> None:
    for x in range(start, end, step):
        camera.add(person(x))


def test_a_walk_through_a_zone_and_over_a_line() -> None:
    camera = Camera(replace(SETTINGS, zones=YARD, lines=GATE))
    walk(camera, 200, 500)
    for _ in range(12):
        tracked = camera.add()
    assert camera.changes == [
        ("begin", None),
        ("entered", "yard"),
        ("crossed", "gate"),
        ("loitering", "yard"),
        ("left", "yard"),
        ("end", None),
    ]
    assert [event.direction for event in camera.events if event.change is ObjectChange.CROSSED] == ["right"]
    assert (tracked.counts, tracked.zones) == ({}, {"yard": {}})
    end = camera.events[-1]
    assert end.object is not None
    assert end.lasted_ns == pytest.approx(2.9 * NS)
    assert (end.object["id"], end.object["stayed_s"], end.object["zones"]) == (1, 2.9, [])
    assert (end.object["path"][0], end.object["path"][-1]) == ((0.3125, 0.625), (0.76562, 0.625))
    left = camera.events[-2]
    assert left.lasted_ns is not None
    assert left.lasted_ns < end.lasted_ns


def test_counts_of_zones_are_those_of_the_objects_in_them() -> None:
    camera = Camera(replace(SETTINGS, zones=YARD))
    for _ in range(3):
        tracked = camera.add(person(100), person(500), person(600))
    assert (tracked.counts, tracked.zones) == ({"person": 3}, {"yard": {"person": 2}})


def test_who_stands_at_the_edge_of_a_zone_does_not_enter_again_and_again() -> None:
    camera = Camera(replace(SETTINGS, zones=YARD))
    for number in range(20):
        camera.add(person(319 + 2 * (number % 3 == 0)))
    assert ("entered", "yard") not in camera.changes


def test_lines_report_only_their_labels() -> None:
    cars = {"gate": LineConfig(points=[[0.5, 1.0], [0.5, 0.0]], labels=["car"])}
    camera = Camera(replace(SETTINGS, lines=cars))
    walk(camera, 250, 400)
    assert camera.changes == [("begin", None)]


def test_what_stands_still_has_stopped_once() -> None:
    camera = Camera()
    for number in range(40):
        camera.add(person(100 + number % 2))
    assert camera.changes == [("begin", None), ("stopped", None)]


def test_the_best_picture_is_that_of_score_and_size_and_not_at_the_edge() -> None:
    camera = Camera()
    scores = [(0.6, 200), (0.7, 210), (0.9, 220), (0.8, 230), (0.9, 625)]
    best = [camera.add(person(x, score)).best for score, x in scores[:4]]
    assert [list(each) for each in best] == [[], [1], [1], []]
    assert best[2][1] == (200.0, 200.0, 240.0, 300.0)
    end = camera.tracker.end()[-1]
    assert end.object is not None
    assert (end.object["best"]["score"], end.object["best"]["captured"]) == (0.9, int(0.3 * NS))
    at_edge = Camera()
    for score, x in [(0.6, 600), (0.6, 600), (0.9, 630)]:
        tracked = at_edge.add(person(x, score))
    assert dict(tracked.best) == {}


def end_of(camera: Camera, change: Any) -> list[tuple[str, str | None]]:
    for _ in range(3):
        camera.add(person(100))
    change(camera)
    camera.events = []
    for _ in range(3):
        camera.add(person(100))
    return camera.changes


def other_labels(camera: Camera) -> None:
    camera.tracker.set_labels(("person",))
    camera.tracker.set_labels(("person", "car"))


def same_labels(camera: Camera) -> None:
    camera.tracker.set_labels(("person",))
    camera.tracker.set_labels(("person",))


def outage(camera: Camera) -> None:
    camera.time += 61 * NS


def switched_off(camera: Camera) -> None:
    camera.settings = replace(SETTINGS, tracking=TrackingConfig(enabled=False))


@pytest.mark.parametrize(
    ("change", "events"),
    [
        (same_labels, []),
        (other_labels, [("end", None), ("begin", None)]),
        (outage, [("end", None), ("begin", None)]),
        (switched_off, [("end", None)]),
    ],
)
def test_when_all_objects_end(change: Any, events: list[tuple[str, str | None]]) -> None:
    assert end_of(Camera(), change) == events


def test_without_tracking_counts_are_as_before() -> None:
    camera = Camera(replace(SETTINGS, tracking=TrackingConfig(enabled=False)))
    for _ in range(3):
        tracked = camera.add(person(100), person(300))
    assert [event.kind for event in camera.events] == [EventKind.APPEARED]
    assert (tracked.counts, list(tracked.ids)) == ({"person": 2}, [])
