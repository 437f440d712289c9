"""The state of a detection or a multi-label classification: how many of each label are present, in all and per zone."""

from collections import Counter, deque
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from edgemeta.daemon.inference.readers.reading import Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.inference.tracking.tracker import Event, NoTracker, Tracked
from edgemeta.daemon.messages.events import EventKind

Key: TypeAlias = tuple[str | None, str]
"""A zone, None for the whole picture, and a label."""


@dataclass(frozen=True)
class _Since:
    count: int
    captured_ns: int


class HeldCounts:
    """How many of each label there are, in all and per zone; each number is held for a time."""

    def __init__(self) -> None:
        self._present: dict[Key, _Since] = {}

    def keys(self) -> set[Key]:
        """What has been counted so far."""
        return set(self._present)

    def count(self, key: Key) -> int:
        """How many there are; 0 for what was never counted."""
        return self._present[key].count if key in self._present else 0

    def of(self, zone: str | None) -> dict[str, int]:
        """How many of each label there are in a zone, or in all; labels without any are left out."""
        return {label: each.count for (where, label), each in self._present.items() if where == zone and each.count}

    def keep(self, zones: Collection[str]) -> None:
        """Forget zones that were removed from the config."""
        for key in [key for key in self._present if key[0] is not None and key[0] not in zones]:
            del self._present[key]

    def change(self, key: Key, count: int, hold_ns: int, captured_ns: int) -> tuple[int, int | None] | None:
        """Change a number, unless it is held; return the one before and for how many ns it lasted, None at first."""
        before = self._present.get(key)
        known = before.count if before is not None else 0
        if count == known or (before is not None and captured_ns - before.captured_ns < hold_ns):
            return None
        self._present[key] = _Since(count, captured_ns)
        return known, None if before is None else captured_ns - before.captured_ns


class CountTracker(NoTracker):
    """As `Tracker`.

    An object counts in a frame if it scores at least `enter`, or `leave` if its label is present already; a score
    that the config names for its label replaces `enter`; a label of a segmentation counts as it is. The count of a
    label changes to a number that at least `agree` of the last `window` frames reach, or do not exceed: with the
    `agree`-th greatest and the `agree`-th least of the window's numbers it is clamp(count, greatest, least). As
    agree > window / 2, the first is never above the second. The counts are known once `agree` frames were seen, and
    each lasts at least `hold_ns` nanoseconds.
    """

    def __init__(self) -> None:
        self._recent: deque[Counter[Key]] = deque()
        self._held = HeldCounts()
        self._known = False

    def add(self, reading: Reading, settings: CameraSettings, captured_ns: int) -> Tracked:
        """As `Tracker.add`."""
        rule = settings.rule
        self._held.keep(settings.zones)
        self._recent.append(Counter(self._counted(reading, settings)))
        while len(self._recent) > rule.window:
            self._recent.popleft()
        became_known = not self._known and len(self._recent) >= rule.agree
        self._known |= became_known
        events = list(self._changes(reading, settings, captured_ns)) if self._known else []
        if not self._known:
            return Tracked()
        zones: dict[str, dict[str, int]] | None = None
        if reading.objects is not None:
            zones = {zone: self._held.of(zone) for zone in settings.zones}
        changed = became_known or bool(events)
        return Tracked(counts=self._held.of(None), zones=zones, changed=changed, events=tuple(events))

    def _counted(self, reading: Reading, settings: CameraSettings) -> Iterator[Key]:
        """A key for each label or object that counts, and for each of its zones."""
        rule = settings.rule
        found = [(each["label"], each["score"], each["zones"]) for each in reading.objects or ()]
        found += [(each["label"], each["score"], []) for each in reading.labels]
        for label, score, zones in found:
            enter = 0.0 if reading.segments else settings.objects.scores.get(label, rule.enter)
            for key in ((None, label), *((zone, label) for zone in zones)):
                if score >= (min(rule.leave, enter) if self._held.count(key) else enter):
                    yield key

    def _changes(self, reading: Reading, settings: CameraSettings, captured_ns: int) -> Iterator[Event]:
        rule = settings.rule
        keys = {key for counted in self._recent for key in counted} | self._held.keys()
        keys = {key for key in keys if key[0] is None or key[0] in settings.zones}
        for key in sorted(keys, key=lambda key: (key[0] or "", key[1])):
            numbers = sorted(counted[key] for counted in self._recent)
            count = _agreed(numbers, rule.agree, self._held.count(key))
            changed = self._held.change(key, count, rule.hold_ns, captured_ns)
            if changed is None:
                continue
            known, lasted_ns = changed
            zone, label = key
            kind = EventKind.APPEARED if count > known else EventKind.GONE
            yield Event(
                kind,
                label=label,
                zone=zone,
                count=count,
                previous_count=known,
                score=_greatest(reading, zone, label) if kind is EventKind.APPEARED else None,
                lasted_ns=lasted_ns,
            )


def _agreed(ascending: list[int], agree: int, count: int) -> int:
    """The count after these frames, before which it was `count`; see `CountTracker`."""
    if len(ascending) < agree:
        return count
    return min(max(count, ascending[-agree]), ascending[agree - 1])


def _greatest(reading: Reading, zone: str | None, label: str) -> float | None:
    """The greatest score of a label in this frame; None if it is not in this frame."""
    scores = [each["score"] for each in reading.labels if each["label"] == label]
    scores += [
        each["score"]
        for each in reading.objects or ()
        if each["label"] == label and (zone is None or zone in each["zones"])
    ]
    return max(scores, default=None)
