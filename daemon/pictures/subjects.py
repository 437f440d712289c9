"""What a frame's events are about: the best picture of an object, or the whole picture."""

from collections.abc import Mapping, Sequence

from edgemeta.daemon.capture.source import Pixels
from edgemeta.daemon.inference.pipeline import FrameResult
from edgemeta.daemon.messages.events import EventKind, EventMessage, ObjectChange
from edgemeta.daemon.messages.records import Box
from edgemeta.daemon.pictures.drawing import crop_of
from edgemeta.daemon.pictures.jpeg import scaled

KEPT_SIDE, KEPT = 400, 16
"""Pixels of the longer side of an object's best picture, and most of them, which are 8 MB of a camera's memory."""


class Subjects:
    """Keeps the best picture of each followed object of one camera while it is there. One thread calls."""

    def __init__(self) -> None:
        self._best: dict[int, Pixels] = {}

    def see(self, pixels: Pixels, result: FrameResult, shape: tuple[int, ...] | None = None) -> Pixels | None:
        """Take a frame; return what its events are about, None without any or where nothing shows it.

        shape: of the classified picture, where `pixels` are another one of the same view.
        """
        shape = pixels.shape if shape is None else shape
        self._keep(pixels, result.best_of, shape)
        events = result.updates.events
        objects = [event for event in events if event.kind is EventKind.OBJECT]
        if objects:
            return self._of_objects(pixels, objects, shape)
        if any(event.kind is EventKind.STATE for event in events) or (events and result.fields["objects"] is None):
            return pixels
        labels = {event.label for event in events if event.kind is EventKind.APPEARED}
        found = [each for each in result.fields["objects"] or () if each["label"] in labels]
        return crop_of(pixels, max(found, key=lambda each: each["score"])["box"], shape) if found else None

    def forget(self) -> None:
        """Keep none any more."""
        self._best.clear()

    def lacks(self, best_of: Mapping[int, Box]) -> bool:
        """Whether no picture is kept of one of these objects."""
        return not best_of.keys() <= self._best.keys()

    def _keep(self, pixels: Pixels, best_of: Mapping[int, Box], shape: tuple[int, ...]) -> None:
        for number, box in best_of.items():
            self._best.pop(number, None)
            kept = scaled(crop_of(pixels, box, shape), KEPT_SIDE)
            self._best[number] = kept
        while len(self._best) > KEPT:
            del self._best[next(iter(self._best))]

    def _of_objects(self, pixels: Pixels, events: Sequence[EventMessage], shape: tuple[int, ...]) -> Pixels | None:
        """Return the best picture of that object of these events whose best score is the greatest."""
        found: list[tuple[float, Pixels]] = []
        for event in events:
            assert event.object is not None
            ends, kept = event.change is ObjectChange.END, self._best.get(event.object.id)
            if kept is not None:
                found.append((event.object.best.score, kept))
            elif not ends:
                found.append((event.object.best.score, crop_of(pixels, event.object.box, shape)))
            if ends:
                self._best.pop(event.object.id, None)
        return max(found, key=lambda each: each[0])[1] if found else None
