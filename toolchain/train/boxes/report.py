"""The report of a trained detector: a page with its precision by label, and pictures of what it found and missed."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import cv2
import numpy as np

from edgemeta.model.atomic_write import write_atomically
from edgemeta.tasks.detection.objects import Object
from edgemeta.tasks.detection.suppress import overlaps
from edgemeta.toolchain.data.boxed_images import BoxedImages
from edgemeta.toolchain.data.boxes.pictures import Pixels, scaled
from edgemeta.toolchain.evaluate.average_precision import NEITHER, RIGHT, WRONG, Precision, judged

PAGE, PICTURE = "report.html", "report.png"
"""Names of the files in the run folder."""
SURE = 0.4
"""Objects of this score or more are shown, as the service reports them."""

_HALF = 0.5
_COLUMNS, _WORST, _BEST = 4, 12, 4
_SIDE = 320
_COLOURS = {RIGHT: (40, 170, 60), WRONG: (240, 140, 0), NEITHER: (150, 150, 150)}
_MISSED = (220, 30, 30)


@dataclass(frozen=True)
class Verdict:
    """What came of one image. states: RIGHT, WRONG or NEITHER of each of `objects`. missed: places of boxes."""

    image: int
    objects: tuple[Object, ...]
    states: tuple[int, ...]
    missed: tuple[int, ...]

    @property
    def mistakes(self) -> int:
        """Missed boxes and wrong objects."""
        return len(self.missed) + self.states.count(WRONG)


def save_report(
    folder: Path, name: str, precision: Precision, found: Sequence[Sequence[Object]], images: BoxedImages
) -> Path:
    """Write the page and its picture into the run folder; returns the path of the page.

    found: the objects of each image, best first, with boxes in its pixels.
    """
    verdicts = [verdict(number, some, images) for number, some in enumerate(found)]
    ranked = sorted(verdicts, key=lambda each: (-each.mistakes, each.image))
    best = [each for each in ranked[::-1] if not each.mistakes and RIGHT in each.states][:_BEST]
    worst = [each for each in ranked[:_WORST] if each.mistakes]
    shown = [_drawn(each, images) for each in (*worst, *best)]
    encoded = cv2.imencode(".png", _tiled(shown)[..., ::-1])[1]
    write_atomically(folder / PICTURE, encoded.tobytes())
    write_atomically(folder / PAGE, "\n".join(_page(name, precision, verdicts)).encode())
    return folder / PAGE


def verdict(number: int, found: Iterable[Object], images: BoxedImages) -> Verdict:
    """Which objects of score SURE or more are right, at an overlap of one half, and which plain boxes were missed."""
    some = tuple(each for each in found if each.score >= SURE)
    first, last = np.searchsorted(images.images, (number, number + 1)).tolist()
    states, missed = [NEITHER] * len(some), []
    for label, text in enumerate(images.labels):
        if images.known is not None and not images.known[number, label]:
            continue
        mine = [place for place, each in enumerate(some) if each.label == text]
        boxes = first + np.flatnonzero(images.classes[first:last] == label)
        hard = images.difficult[boxes] if images.difficult is not None else np.zeros(len(boxes), np.bool_)
        own = np.array([some[place].box for place in mine], np.float64).reshape(-1, 4)
        shared = overlaps(own, images.boxes[boxes].astype(np.float64))
        for place, state in zip(mine, judged(shared[:, ~hard], shared[:, hard], _HALF), strict=True):
            states[place] = state
        hits = judged(shared[:, ~hard].T, np.zeros((int((~hard).sum()), 0)), _HALF)
        missed += [int(box) for box, hit in zip(boxes[~hard], hits, strict=True) if hit != RIGHT]
    return Verdict(number, some, tuple(states), tuple(missed))


def _drawn(result: Verdict, images: BoxedImages) -> Pixels:
    """The image with boxes: right ones, wrong ones, and those that were missed."""
    height, width = images.x.shape[1:3]
    factor = _SIDE / max(height, width)
    shown = scaled(images.x[result.image], round(width * factor), round(height * factor))
    canvas = cv2.copyMakeBorder(
        shown, 0, _SIDE - shown.shape[0], 0, _SIDE - shown.shape[1], cv2.BORDER_CONSTANT, value=(255,) * 3
    )
    rows = [(images.boxes[box].tolist(), _MISSED, images.labels[images.classes[box]]) for box in result.missed]
    for each, state in zip(result.objects, result.states, strict=True):
        rows.append((list(each.box), _COLOURS[state], f"{each.label} {each.score:.2f}"))
    for box, colour, text in rows:
        x0, y0, x1, y1 = (round(side * factor) for side in box)
        cv2.rectangle(canvas, (x0, y0), (x1, y1), colour, 2)
        cv2.putText(canvas, text, (x0 + 2, max(10, y0 - 3)), cv2.FONT_HERSHEY_SIMPLEX, 0.4, colour, 1, cv2.LINE_AA)
    pixels: Pixels = canvas.astype(np.uint8, copy=False)
    return pixels


def _tiled(pictures: Sequence[Pixels]) -> Pixels:
    rows = max(1, -(-len(pictures) // _COLUMNS))
    canvas = np.full((rows * _SIDE, _COLUMNS * _SIDE, 3), 255, np.uint8)
    for number, picture in enumerate(pictures):
        row, column = divmod(number, _COLUMNS)
        canvas[row * _SIDE : (row + 1) * _SIDE, column * _SIDE : (column + 1) * _SIDE] = picture
    return canvas


def _page(name: str, precision: Precision, verdicts: Sequence[Verdict]) -> Iterable[str]:
    right = sum(each.states.count(RIGHT) for each in verdicts)
    wrong = sum(each.states.count(WRONG) for each in verdicts)
    missed = sum(len(each.missed) for each in verdicts)
    yield f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(name)}</title>"
    yield "<style>body{font:15px sans-serif;margin:2em}td,th{padding:0 1em;text-align:right}img{max-width:100%}</style>"
    yield f"<h1>{escape(name)}</h1>"
    yield (
        f"<p>{precision.images} pictures: mean average precision {100 * precision.at_half:.1f} % (IoU 0.5), "
        f"{100 * precision.mean:.1f} % (IoU 0.5:0.95). With a score of {SURE} or more: {right} right, {wrong} wrong, "
        f"{missed} missed.</p>"
    )
    yield "<table><tr><th>label<th>boxes<th>AP, IoU 0.5<th>AP, IoU 0.5:0.95"
    for each in precision.labels:
        yield (f"<tr><td>{escape(each.label)}<td>{each.boxes}<td>{100 * each.at_half:.1f} %<td>{100 * each.mean:.1f} %")
    yield "</table>"
    yield (
        f"<p>The pictures with the most mistakes, then some without: green: right, orange: wrong, red: missed, "
        f"grey: a difficult box, or a label that was not annotated there.</p><img src='{PICTURE}' alt='pictures'>"
    )
