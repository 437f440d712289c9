"""Scores of followed objects, counted by hand; and which events persons caused."""

from benchmarks.mot_scores import Placed, scores_of
from benchmarks.tracking import NEAR, EventWatch
from edgemeta.daemon.messages.events import ObjectChange

LEFT, RIGHT = (0.0, 0.0, 20.0, 50.0), (100.0, 0.0, 120.0, 50.0)


def test_missed_false_and_switched() -> None:
    truth = {number: [Placed(1, LEFT), Placed(2, RIGHT)] for number in range(4)}
    frames = [
        [Placed(7, LEFT), Placed(8, RIGHT)],
        [Placed(7, LEFT)],  # 2 is missed
        [Placed(8, LEFT), Placed(7, RIGHT)],  # both are switched
        [Placed(8, LEFT), Placed(7, RIGHT), Placed(9, (50.0, 0.0, 70.0, 50.0))],  # 9 is false
    ]
    scores = scores_of(truth, frames)
    assert (scores.persons, scores.missed, scores.false, scores.switches) == (8, 1, 1, 2)
    assert scores.mota == 1 - 4 / 8


def test_who_was_with_an_object_stays_with_it_while_they_overlap() -> None:
    near = (2.0, 0.0, 22.0, 50.0)
    scores = scores_of(
        {0: [Placed(1, LEFT)], 1: [Placed(1, LEFT)]}, [[Placed(7, LEFT)], [Placed(7, near), Placed(8, LEFT)]]
    )
    assert (scores.switches, scores.false) == (0, 1)


def test_events_of_nobody_and_mistaken_ones() -> None:
    truth = {number: [Placed(1, LEFT)] for number in range(100)}
    watch = EventWatch(truth)
    for number in range(120):
        watch.see([Placed(7, LEFT), Placed(9, RIGHT)], number)
    watch.see([Placed(8, LEFT)], 50)
    watch.add(ObjectChange.BEGIN, 7, 0)
    watch.add(ObjectChange.BEGIN, 9, 0)
    watch.add(ObjectChange.STOPPED, 7, 20)
    watch.add(ObjectChange.STOPPED, 9, 20)
    watch.add(ObjectChange.BEGIN, 8, 50 - NEAR + 1)
    watch.add(ObjectChange.END, 8, 60)
    watch.add(ObjectChange.END, 7, 110)
    assert watch.summary() == {
        "events": 7,
        "begins": 3,
        "of nobody": ["begin of object 9 in frame 0", "stopped of object 9 in frame 20"],
        "mistaken": [f"begin of object 8 in frame {51 - NEAR}", "end of object 8 in frame 60"],
    }
