"""What one followed object has done so far: its zones, lines, path and best picture, and what is to be reported."""

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Literal

from edgemeta.daemon.config.objects import LineConfig
from edgemeta.daemon.inference.readers.settings import CameraSettings
from edgemeta.daemon.inference.tracking.tracker import Event
from edgemeta.daemon.messages.events import EventKind, ObjectChange
from edgemeta.daemon.messages.records import Fields
from edgemeta.daemon.runtime.clock import NS
from edgemeta.tasks.tracking.lines import Crossings, Line
from edgemeta.tasks.tracking.lines import Point as GridPoint
from edgemeta.tasks.tracking.objects import Track
from edgemeta.tasks.tracking.stay import Path, Standstill

GRID = 16
"""Boxes are followed in units of 1/GRID of a pixel."""


@dataclass(frozen=True)
class _Change:
    change: ObjectChange
    lasted_ns: int | None
    zone: str | None = None
    line: str | None = None
    direction: Literal["left", "right"] | None = None


@dataclass
class _Inside:
    since_ns: int
    told: bool = False


@dataclass(eq=False)
class Life:
    """One object. began_ns, seen_ns: capture times of its first and its newest frame. size: of the picture in pixels.

    found: its newest object in the form of frame messages.
    """

    track: Track
    size: tuple[int, int]
    began_ns: int
    seen_ns: int = 0
    found: Fields = field(default_factory=dict)
    _path: Path = field(default_factory=Path)
    _still: Standstill = field(default_factory=Standstill)
    _crossings: dict[str, Crossings] = field(default_factory=dict)
    _votes: deque[frozenset[str]] = field(default_factory=deque)
    _inside: dict[str, _Inside] = field(default_factory=dict)
    _best: Fields = field(default_factory=dict)
    _names: Counter[str | None] = field(default_factory=Counter)
    _quality: int = -1
    _changes: list[_Change] = field(default_factory=list)

    def see(self, found: Fields, settings: CameraSettings, captured_ns: int) -> bool:
        """Take a frame that shows the object; whether it is its best picture so far."""
        self.found, self.seen_ns = found, captured_ns
        self._names[found["name"]] += 1
        x0, y0, x1, y1 = self.track.box
        point, side = ((x0 + x1) // 2, y1), min(x1 - x0, y1 - y0)
        self._path.add(point)
        self._vote(settings, captured_ns)
        self._cross(settings, point, side // 4)
        after = settings.tracking.stopped_after
        if after is not None and self._still.move(point, side, int(after * NS), captured_ns):
            self._changes.append(_Change(ObjectChange.STOPPED, captured_ns - self.began_ns))
        width, height = self.size
        at_edge = x0 <= 0 or y0 <= 0 or x1 >= width * GRID or y1 >= height * GRID
        quality = self.track.score * side // (2 if at_edge else 1)
        if quality <= self._quality:
            return False
        self._quality = quality
        self._best = {
            "captured": captured_ns,
            **{key: found[key] for key in ("score", "box", "box_relative")},
        }
        return True

    @property
    def zones(self) -> list[str]:
        """The zones in which it is."""
        return list(self._inside)

    def begin(self) -> list[Event]:
        """The events of an object that has just been confirmed: what it did until then follows its begin."""
        return [self._event(_Change(ObjectChange.BEGIN, None)), *self.news()]

    def news(self) -> list[Event]:
        """The events since the last call."""
        changes, self._changes = self._changes, []
        return [self._event(each) for each in changes]

    def end(self) -> list[Event]:
        """The events of an object that is gone: it leaves its zones and ends, when it was seen last."""
        for zone, inside in self._inside.items():
            self._changes.append(_Change(ObjectChange.LEFT, self.seen_ns - inside.since_ns, zone))
        self._inside = {}
        return [*self.news(), self._event(_Change(ObjectChange.END, self.seen_ns - self.began_ns))]

    def _vote(self, settings: CameraSettings, now: int) -> None:
        """It is in a zone, or no longer, once enough of its last frames say so, by the rule of the state."""
        rule, votes = settings.rule, self._votes
        votes.append(frozenset(self.found["zones"]))
        while len(votes) > rule.window:
            votes.popleft()
        for zone in [zone for zone in self._inside if sum(zone not in each for each in votes) >= rule.agree]:
            self._changes.append(_Change(ObjectChange.LEFT, now - self._inside.pop(zone).since_ns, zone))
        for zone, config in settings.zones.items():
            inside = self._inside.get(zone)
            if inside is None:
                if sum(zone in each for each in votes) >= rule.agree:
                    self._inside[zone] = _Inside(now)
                    self._changes.append(_Change(ObjectChange.ENTERED, None, zone))
            elif (
                config.loitering_s is not None and not inside.told and now - inside.since_ns >= config.loitering_s * NS
            ):
                inside.told = True
                self._changes.append(_Change(ObjectChange.LOITERING, now - inside.since_ns, zone))

    def _cross(self, settings: CameraSettings, point: GridPoint, margin: int) -> None:
        for name, line in settings.lines.items():
            if line.labels is not None and self.track.label not in line.labels:
                continue
            side = self._crossings.setdefault(name, Crossings()).move(self._line(line), point, margin)
            if side is not None:
                change = _Change(ObjectChange.CROSSED, self.seen_ns - self.began_ns, line=name, direction=side)
                self._changes.append(change)

    def _line(self, line: LineConfig) -> Line:
        width, height = self.size
        first, second = ((round(x * width * GRID), round(y * height * GRID)) for x, y in line.points)
        return Line(first, second)

    def _event(self, each: _Change) -> Event:
        return Event(
            EventKind.OBJECT,
            change=each.change,
            label=self.track.label,
            zone=each.zone,
            line=each.line,
            direction=each.direction,
            score=self.found["score"],
            lasted_ns=each.lasted_ns,
            object=self._fields(),
        )

    def _fields(self) -> Fields:
        width, height = self.size
        path = [(round(x / (GRID * width), 5), round(y / (GRID * height), 5)) for x, y in self._path.points]
        return {
            "id": self.track.id,
            "label": self.track.label,
            "name": self._names.most_common(1)[0][0],
            **{key: self.found[key] for key in ("score", "box", "box_relative")},
            "zones": self.zones,
            "began": self.began_ns,
            "stayed_s": round((self.seen_ns - self.began_ns) / NS, 3),
            "best": self._best,
            "path": path,
        }
