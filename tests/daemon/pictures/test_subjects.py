"""What events are about: by hand-made frames whose pixels have the number of the frame."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.inference.pipeline import FrameResult
from edgemeta.daemon.inference.state_reporter import Updates
from edgemeta.daemon.messages.events import BestPicture, EventKind, EventMessage, FollowedObject, ObjectChange
from edgemeta.daemon.messages.records import Box
from edgemeta.daemon.pictures.subjects import KEPT, KEPT_SIDE, Subjects

BOX: Box = (40, 30, 60, 50)


def frame(number: int, side: int = 100) -> Pixels:
    return np.full((side, side, 3), number, np.uint8)


def of_object(change: ObjectChange, number: int, score: float = 0.5) -> EventMessage:
    best = BestPicture.model_construct(score=score)
    followed = FollowedObject.model_construct(id=number, box=BOX, best=best)
    return EventMessage.model_construct(kind=EventKind.OBJECT, change=change, object=followed)


def result(events: Sequence[EventMessage] = (), best_of: Any = (), objects: Any = ()) -> FrameResult:
    return FrameResult({"objects": objects}, None, Updates(None, tuple(events), False), {}, dict(best_of))


def number_of(picture: Pixels | None) -> int | None:
    return None if picture is None else int(picture[0, 0, 0])


def test_an_object_s_picture_is_that_of_the_frame_that_shows_it_best_until_its_end() -> None:
    subjects = Subjects()
    assert number_of(subjects.see(frame(1), result([of_object(ObjectChange.BEGIN, 7)], {7: BOX}))) == 1
    assert subjects.see(frame(2), result([], {7: BOX})) is None
    assert number_of(subjects.see(frame(3), result([of_object(ObjectChange.CROSSED, 7)]))) == 2
    assert number_of(subjects.see(frame(4), result([of_object(ObjectChange.END, 7)]))) == 2
    assert subjects.see(frame(5), result([of_object(ObjectChange.END, 7)])) is None


def test_an_object_of_which_none_is_kept_is_shown_as_it_is_now() -> None:
    assert number_of(Subjects().see(frame(9), result([of_object(ObjectChange.ENTERED, 1)]))) == 9


def test_of_several_objects_the_best_score_counts() -> None:
    subjects = Subjects()
    for number in (1, 2, 3):
        subjects.see(frame(number), result([], {number: BOX}))
    events = [of_object(ObjectChange.STOPPED, number, score) for number, score in ((1, 0.4), (2, 0.9), (3, 0.6))]
    assert number_of(subjects.see(frame(4), result(events))) == 2


def test_no_more_are_kept_than_memory_is_meant_for_and_no_larger_ones() -> None:
    subjects = Subjects()
    for number in range(KEPT + 1):
        subjects.see(frame(number, 1000), result([], {number: (0, 0, 1000, 900)}))
    last = subjects.see(frame(0), result([of_object(ObjectChange.END, KEPT)]))
    assert last is not None
    assert max(last.shape) == KEPT_SIDE
    assert subjects.see(frame(0), result([of_object(ObjectChange.END, 0)])) is None


def test_without_objects_that_are_followed_the_best_that_appeared_or_the_whole_picture() -> None:
    appeared = EventMessage.model_construct(kind=EventKind.APPEARED, label="cat")
    objects = [
        {"label": "cat", "score": 0.5, "box": BOX},
        {"label": "cat", "score": 0.8, "box": (0, 0, 10, 10)},
        {"label": "dog", "score": 0.9, "box": (0, 0, 50, 50)},
    ]
    picture = Subjects().see(frame(1), result([appeared], objects=objects))
    assert picture is not None
    assert picture.shape == (12, 12, 3)
    gone = EventMessage.model_construct(kind=EventKind.GONE, label="cat")
    assert Subjects().see(frame(1), result([gone], objects=objects)) is None
    state = EventMessage.model_construct(kind=EventKind.STATE, label=None)
    for event in (state, appeared):
        whole = Subjects().see(frame(1), result([event], objects=None))
        assert whole is not None
        assert whole.shape == (100, 100, 3)
