"""The state of a detection: its objects, followed from frame to frame, and how many there are; or counts alone."""

from collections import Counter
from collections.abc import Iterator

from edgemeta.daemon.inference.readers.reading import Reading
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.inference.tracking.counts import CountTracker, HeldCounts
from edgemeta.daemon.inference.tracking.life import GRID, Life
from edgemeta.daemon.inference.tracking.tracker import Event, Tracked
from edgemeta.daemon.messages.records import Box, Fields
from edgemeta.daemon.runtime.clock import NS
from edgemeta.tasks.tracking.objects import ObjectTracker, Rules, Seen, Strength, Track

MILLISECOND = NS // 1000
MILLION = 1_000_000
LONGEST_PAUSE = 60 * NS
"""After so long without a frame, as after an outage of the camera, nothing is the same object."""


class DetectionTracker:
    """As `Tracker`.

    An object is strong in a frame if it scores at least `enter`, or the score that the config names for its label; it
    is confirmed by `agree` such frames of its first `window`; where it does not move and the config names no score for
    its label, only with a mean of at least `tracking.still_score`. One that scores at least `leave` continues an object
    anywhere near, a fainter one where it is expected. The counts are those of confirmed objects; they are known once
    `agree` frames were seen, and each lasts at least `hold_ns` nanoseconds.
    """

    def __init__(self, ids: Iterator[int] | None = None) -> None:
        """ids: of the objects; None: 1, 2, 3 ..."""
        self._labels: tuple[str, ...] | None = None
        self._ends_all = False
        self._counts = CountTracker()
        self.objects = ObjectTracker(ids)
        self._lives: dict[Track, Life] = {}
        self._held = HeldCounts()
        self._frames = 0
        self._size = (0, 0)
        self._last_ns = 0

    def set_labels(self, labels: tuple[str, ...]) -> None:
        """Follow objects of a model with these labels; with other ones than before, all objects end."""
        self._ends_all |= self._labels not in (None, labels)
        self._labels = labels

    def add(self, reading: Reading, settings: CameraSettings, captured_ns: int) -> Tracked:
        """As `Tracker.add`."""
        events: list[Event] = []
        is_other = self._ends_all or reading.size != self._size or captured_ns - self._last_ns > LONGEST_PAUSE
        if is_other or not settings.tracking.enabled:
            events = self.end()
            self._ends_all, self._size = False, reading.size
        self._last_ns = captured_ns
        if settings.tracking.enabled:
            return self._follow(reading, settings, captured_ns, events)
        tracked = self._counts.add(reading, settings, captured_ns)
        return tracked._replace(events=[*events, *tracked.events])

    def end(self) -> list[Event]:
        """End all objects, and return the events."""
        events = [event for track in self.objects.end() for event in self._lives[track].end()]
        self._lives.clear()
        return events

    def _follow(self, reading: Reading, settings: CameraSettings, captured_ns: int, events: list[Event]) -> Tracked:
        objects = reading.objects or []
        found = [*objects, *reading.faint]
        rule, tracking, (width, height) = settings.rule, settings.tracking, reading.size
        rules = Rules(
            rule.agree,
            rule.window,
            int(tracking.max_gap * 1000),
            (width * GRID, height * GRID),
            round(tracking.still_score * MILLION),
            frozenset(settings.objects.scores),
        )
        seen = [_seen(each, settings, is_faint=n >= len(objects)) for n, each in enumerate(found)]
        step = self.objects.add(seen, rules, captured_ns // MILLISECOND)
        ids: list[int | None] = [None] * len(objects)
        best: dict[int, Box] = {}
        for track in self.objects.tracks:
            if track.missed:
                continue
            life = self._lives.get(track)
            if life is None:
                life = self._lives[track] = Life(track, reading.size, captured_ns)
            is_best = life.see(found[track.place], settings, captured_ns)
            if track.id is None:
                continue
            if track.place < len(objects):
                ids[track.place] = track.id
            if is_best or track in step.began:
                best[track.id] = found[track.place]["box"]
            events += life.begin() if track in step.began else life.news()
        for track in step.ended:
            events += self._lives[track].end()
        here = set(self.objects.tracks)
        self._lives = {track: life for track, life in self._lives.items() if track in here}
        self._frames += 1
        return self._tracked(settings, captured_ns, events, ids, best)

    def _tracked(
        self,
        settings: CameraSettings,
        captured_ns: int,
        events: list[Event],
        ids: list[int | None],
        best: dict[int, Box],
    ) -> Tracked:
        agree = settings.rule.agree
        if self._frames < agree:
            return Tracked(events=events, ids=ids, best=best)
        confirmed = [self._lives[track] for track in self.objects.confirmed]
        counts = Counter((zone, life.track.label) for life in confirmed for zone in (None, *life.zones))
        self._held.keep(settings.zones)
        changes = [
            self._held.change(key, counts[key], settings.rule.hold_ns, captured_ns)
            for key in sorted(self._held.keys() | counts.keys(), key=lambda key: (key[0] or "", key[1]))
        ]
        changed = self._frames == agree or any(each is not None for each in changes)
        zones = {zone: self._held.of(zone) for zone in settings.zones}
        return Tracked(counts=self._held.of(None), zones=zones, changed=changed, events=events, ids=ids, best=best)


def _seen(found: Fields, settings: CameraSettings, *, is_faint: bool) -> Seen:
    """An object of a frame message as what is followed: corners in 1/GRID of a pixel, score in millionths."""
    label, score = found["label"], found["score"]
    enter = settings.objects.scores.get(label, settings.rule.enter)
    strength = Strength.FAINT
    if not is_faint and score >= min(settings.rule.leave, enter):
        strength = Strength.STRONG if score >= enter else Strength.SURE
    x0, y0, x1, y1 = (round(side * GRID) for side in found["box"])
    return Seen((x0, y0, max(x1, x0 + 1), max(y1, y0 + 1)), label, round(score * MILLION), strength)
