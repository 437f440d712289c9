"""Objects over frames: which box is which object, when an object begins, and when it has ended.

In the manner of ByteTrack (Zhang et al. 2022): boxes that are sure are given to objects first, then the faint ones to
objects that lack one, since a faint box where an object is expected is that object, half hidden. Then, as OC-SORT (Cao
et al. 2023), what is left is compared with where objects were seen last, in widened boxes. Of each step the pairs with
the greatest sum of overlaps are taken. Times and boxes are integers, so the same frames give the same objects
everywhere; the order of the boxes of a frame does not matter.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import count
from typing import NamedTuple

import numpy as np

from edgemeta.tasks.tracking.matching import WHOLE, Integers, best_pairs, overlaps, widened
from edgemeta.tasks.tracking.motion import Motion

Box = tuple[int, int, int, int]


class Strength(IntEnum):
    """What a box may do: continue an object where one is expected, or anywhere, or also begin one."""

    FAINT = 0
    SURE = 1
    STRONG = 2


class Seen(NamedTuple):
    """A box of a frame: its corners x0, y0, x1, y1 with x0 < x1 and y0 < y1, below 2**22, and how it may count."""

    box: Box
    label: str
    score: int
    strength: Strength


@dataclass(frozen=True)
class Rules:
    """When objects begin and end.

    agree: strong boxes among an object's first `window` frames that confirm it. gap_ms: how long a confirmed object may
    be hidden; it may lack window - agree frames in any case. picture: width and height in the unit of boxes; an object
    that left it is not waited for. still_score: least mean score of the strong boxes of an object that has not moved:
    its frames all show the same view, so that many of them prove no more than one. trusted: labels without that.
    """

    agree: int
    window: int
    gap_ms: int
    picture: tuple[int, int]
    still_score: int = 0
    trusted: frozenset[str] = frozenset()


SURE_OVERLAP = WHOLE * 10 // 100
"""Least overlap of a sure box with where its object is expected."""
FAINT_OVERLAP = WHOLE * 40 // 100
"""The same of a faint box."""
NEAR_OVERLAP = WHOLE * 5 // 100
"""Least overlap of a box with where its object was seen last, both widened by WIDENED percent."""
WIDENED = 30
OTHER_LABEL_OVERLAP = WHOLE * 60 // 100
"""Least overlap of a box of another label than its object's."""
FAINT_MS = 1000
"""How long after an object was seen a faint box may continue it."""


@dataclass(eq=False)
class Track:
    """An object. id: None until it is confirmed; the label is then that of the greatest sum of scores, and stays.

    box, score, seen_ms: those of its last box, and its time. place: of that box among those of its frame. frames: how
    many frames there were since it began. missed: the same since its last box. first: its first box. strong, elsewhere,
    strong_scores: how many strong boxes it had until it was confirmed, how many of them were away from the first, and
    the sum of their scores.
    """

    box: Box
    score: int
    label: str
    seen_ms: int
    place: int
    id: int | None = None
    frames: int = 1
    strong: int = 1
    missed: int = 0
    elsewhere: int = 0
    labels: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """It begins with a strong box."""
        self.first, self.strong_scores = self.box, self.score
        self.labels[self.label] = self.score

    def see(self, seen: Seen, place: int, time_ms: int) -> None:
        """Take a box of a frame."""
        self.box, self.score, self.seen_ms, self.place, self.missed = seen.box, seen.score, time_ms, place, -1
        if self.id is None:
            if seen.strength is Strength.STRONG:
                self.strong += 1
                self.strong_scores += seen.score
                self.elsewhere += self._is_elsewhere
            self.labels[seen.label] = self.labels.get(seen.label, 0) + seen.score
            self.label = max(self.labels, key=lambda label: (self.labels[label], label))

    def is_proved(self, rules: Rules) -> bool:
        """Whether its boxes prove an object: enough strong ones, of one that moves or that scores well."""
        if self.strong < rules.agree:
            return False
        scores_well = self.label in rules.trusted or self.strong_scores >= rules.still_score * self.strong
        return scores_well or self.elsewhere >= rules.agree

    @property
    def _is_elsewhere(self) -> bool:
        """Whether its middle is farther than half its shorter side from where it began."""
        x, y = (self.box[i] + self.box[i + 2] - self.first[i] - self.first[i + 2] for i in (0, 1))
        return x * x + y * y > min(self.box[2] - self.box[0], self.box[3] - self.box[1]) ** 2


class Step(NamedTuple):
    """What a frame changed: confirmed objects that began and that ended. An ended one was seen last at `seen_ms`."""

    began: tuple[Track, ...]
    ended: tuple[Track, ...]


class ObjectTracker:
    """The objects of one camera. They get the next of `ids` in the order in which they are confirmed, none twice."""

    def __init__(self, ids: Iterator[int] | None = None) -> None:
        self._motion = Motion()
        self._tracks: list[Track] = []
        self._ids = count(1) if ids is None else ids

    @property
    def tracks(self) -> list[Track]:
        """The objects that have not ended, also those that are not confirmed, in the order in which they began."""
        return list(self._tracks)

    @property
    def confirmed(self) -> list[Track]:
        """The confirmed ones of them."""
        return [track for track in self._tracks if track.id is not None]

    def add(self, boxes: Sequence[Seen], rules: Rules, time_ms: int) -> Step:
        """Add the boxes of a frame. time_ms: never decreasing."""
        order = sorted(range(len(boxes)), key=lambda place: (-boxes[place].score, boxes[place].box, boxes[place].label))
        seen = [boxes[place] for place in order]
        corners = np.array([each.box for each in seen], np.int64).reshape(-1, 4)
        expected = self._motion.boxes(time_ms)
        owners = self._owners(seen, corners, expected, time_ms)
        self._correct(owners, corners, time_ms)
        for number, row in owners.items():
            self._tracks[row].see(seen[number], order[number], time_ms)
        began = self._confirmed(set(owners.values()), rules)
        ended = self._drop(expected, rules, time_ms)
        self._begin([n for n in range(len(seen)) if n not in owners], seen, order, corners, rules, time_ms)
        return Step((*began, *self._confirmed(set(range(len(self._tracks))), rules)), ended)

    def end(self) -> tuple[Track, ...]:
        """End all objects; return those that were confirmed. Later ones have other ids."""
        ended = tuple(self.confirmed)
        self._motion, self._tracks = Motion(), []
        return ended

    def _owners(self, seen: Sequence[Seen], corners: Integers, expected: Integers, time_ms: int) -> dict[int, int]:
        """The row of the object to which each box belongs, by the box's number."""
        if not seen or not self._tracks:
            return {}
        tracks = self._tracks
        confirmed = [row for row, track in enumerate(tracks) if track.id is not None]
        lately = [row for row in confirmed if time_ms - tracks[row].seen_ms <= FAINT_MS]
        new = [row for row, track in enumerate(tracks) if track.id is None]
        sure = [number for number, each in enumerate(seen) if each.strength is not Strength.FAINT]
        faint = [number for number, each in enumerate(seen) if each.strength is Strength.FAINT]
        there = _Overlaps(tracks, seen, expected, corners)
        match = _Matches()
        match.add(confirmed, sure, there.of_label, SURE_OVERLAP)
        match.add(lately, faint, there.of_label, FAINT_OVERLAP)
        match.add(confirmed, sure, there.near, NEAR_OVERLAP)
        match.add(confirmed, sure, lambda: there.of_any_label, OTHER_LABEL_OVERLAP)
        match.add(new, sure, there.of_label, SURE_OVERLAP)
        match.add(new, sure, there.near, NEAR_OVERLAP)
        return match.owners

    def _correct(self, owners: dict[int, int], corners: Integers, time_ms: int) -> None:
        self._motion.correct(list(owners.values()), corners[list(owners)], time_ms)

    def _confirmed(self, rows: set[int], rules: Rules) -> list[Track]:
        """Confirm those objects of these rows that their boxes prove, in the order of rows."""
        found = [t for i, t in enumerate(self._tracks) if i in rows and t.id is None and t.is_proved(rules)]
        for track in found:
            track.id = next(self._ids)
        return found

    def _drop(self, expected: Integers, rules: Rules, time_ms: int) -> tuple[Track, ...]:
        """Count the frame and drop objects that were not seen for too long; return the confirmed ones."""
        kept, ended = [], []
        twice_centres = expected[:, :2] + expected[:, 2:]
        outside = ((twice_centres < 0) | (twice_centres > 2 * np.array(rules.picture))).nonzero()[0].tolist()
        for row, track in enumerate(self._tracks):
            track.frames += 1
            track.missed += 1
            lacks = track.missed if track.strong >= rules.agree else track.frames - track.strong
            if track.id is None:
                gone = lacks > rules.window - rules.agree
            else:
                is_long = row in outside or time_ms - track.seen_ms > rules.gap_ms
                gone = is_long and track.missed > rules.window - rules.agree
            if not gone:
                kept.append(row)
            elif track.id is not None:
                ended.append(track)
        if len(kept) < len(self._tracks):
            self._tracks = [self._tracks[row] for row in kept]
            self._motion.keep(kept)
        return tuple(ended)

    def _begin(
        self,
        free: list[int],
        seen: Sequence[Seen],
        order: list[int],
        corners: Integers,
        rules: Rules,
        time_ms: int,
    ) -> None:
        """Begin an object with each strong box that belongs to none."""
        new = [n for n in free if seen[n].strength is Strength.STRONG]
        if not new:
            return
        for n in new:
            box, label, score, _ = seen[n]
            self._tracks.append(Track(box, score, label, time_ms, order[n]))
        self._motion.add(corners[new], time_ms)


class _Overlaps:
    """Overlaps [objects, boxes] of a frame, computed where they are needed."""

    def __init__(self, tracks: Sequence[Track], seen: Sequence[Seen], expected: Integers, corners: Integers) -> None:
        self._tracks, self._corners = tracks, corners
        self.of_any_label = overlaps(expected, corners)
        numbers = {label: number for number, label in enumerate(dict.fromkeys(each.label for each in seen))}
        of_tracks = np.array([numbers.get(track.label, -1) for track in tracks])
        self._same = of_tracks[:, np.newaxis] == np.array([numbers[each.label] for each in seen])
        self._near: Integers | None = None

    def of_label(self) -> Integers:
        """Of boxes with where objects of their label are expected."""
        found: Integers = self.of_any_label * self._same
        return found

    def near(self) -> Integers:
        """Of boxes with where objects of their label were seen last, both widened."""
        if self._near is None:
            last = np.array([track.box for track in self._tracks], np.int64)
            self._near = overlaps(widened(last, WIDENED), widened(self._corners, WIDENED)) * self._same
        return self._near


class _Matches:
    """Which box belongs to which object; owners: the object's row by the box's number."""

    def __init__(self) -> None:
        self.owners: dict[int, int] = {}
        self._taken: set[int] = set()

    def add(self, rows: Sequence[int], numbers: Sequence[int], values: Callable[[], Integers], least: int) -> None:
        """Pair the objects in these rows with these boxes, as far as both are free. values: overlaps."""
        rows = [row for row in rows if row not in self._taken]
        numbers = [number for number in numbers if number not in self.owners]
        if rows and numbers:
            for i, j in best_pairs(values()[rows][:, numbers], least):
                self.owners[numbers[j]] = rows[i]
                self._taken.add(rows[i])
