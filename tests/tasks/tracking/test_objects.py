"""Objects keep their identity: over gaps, faint boxes and crossings; whatever the order of boxes; none twice."""

from collections.abc import Sequence
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from edgemeta.tasks.tracking.objects import ObjectTracker, Rules, Seen, Step, Strength

RULES = Rules(agree=2, window=3, gap_ms=1000, picture=(10_000, 10_000))
STRONG, FAINT = Strength.STRONG, Strength.FAINT


def at(x: int, y: int = 1000, strength: Strength = STRONG, label: str = "person", width: int = 320) -> Seen:
    return Seen((x, y, x + width, y + 800), label, 900_000 if strength is STRONG else 200_000, strength)


class Run:
    """Frames every 100 ms, and the ids of their boxes."""

    def __init__(self, rules: Rules = RULES) -> None:
        self.tracker, self.rules, self.time = ObjectTracker(), rules, 0
        self.began: list[int | None] = []
        self.ended: list[int | None] = []

    def add(self, *boxes: Seen, after: int = 100) -> list[int | None]:
        self.time += after
        step = self.tracker.add(boxes, self.rules, self.time)
        self.began += [track.id for track in step.began]
        self.ended += [track.id for track in step.ended]
        here = {track.place: track.id for track in self.tracker.tracks if track.missed == 0}
        return [here.get(place) for place in range(len(boxes))]


def test_an_object_begins_when_enough_frames_show_it_and_ends_after_the_gap() -> None:
    run = Run()
    assert [run.add(at(0)), run.add(at(10)), run.add(at(20))] == [[None], [1], [1]]
    for _ in range(10):
        run.add()
    assert run.ended == []
    run.add()
    assert (run.began, run.ended) == ([1], [1])


def test_what_one_frame_shows_is_no_object() -> None:
    run = Run()
    for _ in range(5):
        run.add(at(0))
        run.add()
        run.add()
    assert run.began == []


STILL = Rules(agree=2, window=3, gap_ms=1000, picture=(10_000, 10_000), still_score=600_000)


def weak(x: int) -> Seen:
    return at(x)._replace(score=550_000)


def test_what_stays_where_it_is_begins_only_if_it_scores_well_on_the_whole() -> None:
    run = Run(STILL)
    for _ in range(20):
        run.add(weak(3), at(5000))
        run.add(weak(0), at(5000))
    assert [track.box[0] for track in run.tracker.confirmed] == [5000]
    run.add(at(0))
    assert run.began == [1]


def test_what_scores_little_begins_once_it_is_elsewhere_in_enough_frames() -> None:
    run = Run(STILL)
    for x in (0, 10, 200, 0, 10, 0):
        assert run.add(weak(x)) == [None]
    assert run.add(weak(170)) == [1]
    assert run.began == [1]


def test_what_waits_to_be_proved_is_forgotten_when_it_is_gone() -> None:
    run = Run(STILL)
    for _ in range(10):
        run.add(weak(0))
    run.add()
    run.add()
    assert run.tracker.tracks == []
    assert run.ended == []


def test_a_gap_of_a_second_is_bridged_where_the_object_is_expected() -> None:
    run = Run()
    for number in range(20):
        run.add(at(100 * number))
    assert run.add(at(100 * 29), after=1000) == [1]
    assert run.ended == []


def test_a_faint_box_continues_an_object_and_begins_none() -> None:
    run = Run()
    for _ in range(5):
        assert run.add(at(5000, strength=FAINT), at(0)) in ([None, None], [None, 1])
    for _ in range(20):
        assert run.add(at(0, strength=FAINT), at(5000, strength=FAINT)) == [1, None]
    assert run.began == [1]


def test_two_who_pass_each_other_keep_their_ids() -> None:
    run = Run()
    ids = [run.add(at(100 * number), at(4000 - 100 * number, y=1100)) for number in range(41)]
    assert ids[-1] == [1, 2]
    assert run.began == [1, 2]


def test_who_has_left_the_picture_is_not_waited_for() -> None:
    run = Run(Rules(2, 3, gap_ms=10_000, picture=(4000, 10_000)))
    for number in range(20):
        run.add(at(200 * number, width=300))
    for _ in range(5):
        run.add()
    assert run.ended == [1]


def test_in_slow_frames_an_object_may_lack_some_in_any_case() -> None:
    run = Run()
    for _ in range(3):
        run.add(at(0), after=5000)
    run.add(after=5000)
    assert run.add(at(0), after=5000) == [1]
    assert run.ended == []


def test_a_label_that_flickers_does_not_change_the_object() -> None:
    run = Run()
    for label in ("car", "car", "truck", "car", "truck", "truck", "truck"):
        run.add(at(0, label=label))
    (track,) = run.tracker.confirmed
    assert (run.began, track.label) == ([1], "car")


def test_after_all_objects_ended_ids_go_on() -> None:
    run = Run()
    for _ in range(2):
        run.add(at(0))
    assert [track.id for track in run.tracker.end()] == [1]
    assert [run.add(at(0)), run.add(at(0))] == [[None], [2]]


BOXES = st.builds(
    lambda x, y, width, height, label, score: Seen(
        (x, y, x + width, y + height), label, score, Strength.FAINT if score < 400 else Strength(1 + (score >= 500))
    ),
    st.integers(0, 9000),
    st.integers(0, 9000),
    st.integers(1, 3000),
    st.integers(1, 3000),
    st.sampled_from(["person", "car"]),
    st.integers(100, 1000),
)
FRAMES = st.lists(st.tuples(st.lists(BOXES, max_size=6), st.integers(1, 2000), st.booleans()), max_size=25)
"""Boxes, milliseconds since the frame before, and whether they are those of the frame before once more."""


def run_of(
    frames: Sequence[tuple[list[Seen], int, bool]], seed: int | None
) -> tuple[list[dict[Seen, int | None]], list[Step]]:
    """The id of each box of each frame, and the steps; with a seed the boxes of each frame are shuffled."""
    tracker, time, boxes = ObjectTracker(), 0, list[Seen]()
    ids, steps, random = [], [], Random(seed)
    for new, passed, again in frames:
        time, boxes = time + passed, boxes if again else new
        shown = random.sample(boxes, len(boxes)) if seed is not None else boxes
        steps.append(tracker.add(shown, RULES, time))
        ids.append({shown[track.place]: track.id for track in tracker.tracks if track.missed == 0})
    return ids, steps


@settings(max_examples=60)
@given(FRAMES, st.integers(0, 1000))
def test_the_order_of_boxes_does_not_matter(frames: list[tuple[list[Seen], int, bool]], seed: int) -> None:
    frames = [(list(dict.fromkeys(boxes)), passed, again) for boxes, passed, again in frames]
    assert run_of(frames, None)[0] == run_of(frames, seed)[0]


@settings(max_examples=60)
@given(FRAMES)
def test_no_id_is_given_twice_and_every_begin_has_one_end(frames: list[tuple[list[Seen], int, bool]]) -> None:
    calm = [([], 11_000, False)] * 3
    _, steps = run_of([*frames, *calm], None)
    began = [track.id for step in steps for track in step.began]
    ended = [track.id for step in steps for track in step.ended]
    assert began == list(range(1, len(began) + 1))
    assert sorted(ended, key=str) == sorted(began, key=str)
    place = {track: number for number, step in enumerate(steps) for track in step.began}
    assert all(place[track] < number for number, step in enumerate(steps) for track in step.ended)
