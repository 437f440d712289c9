"""The figures of docs/people-vehicles-animals.md, from benchmarks/results/shipped_detector.json."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULT = Path("benchmarks/results/shipped_detector.json")
PRECISION, FAILURES, END = "<!-- precision: python -m tools.documents -->", "<!-- failures -->", "<!-- end -->"
_ROWS = {
    "person": "person, {images} pictures of the test part",
    "car": "car",
    "animals": "animals, mean of six labels",
    "PETS clip, person": "person, a fixed camera above a street (PETS)",
}
_GROUPS = {
    "size, pixels": "side in the network's image, pixels",
    "boxes in the picture": "boxes in the picture",
    "brightness": "mean brightness of the picture, of 255",
}


def replaced(page: str) -> str:
    """The page with both tables renewed."""
    values = json.loads((ROOT / RESULT).read_text("utf-8"))
    for begin, lines in ((PRECISION, precision(values)), (FAILURES, failures(values))):
        before, _, rest = page.partition(begin)
        page = before + "\n".join((begin, *lines, END)) + rest.partition(END)[2]
    return page


def precision(values: Mapping[str, Any]) -> Iterator[str]:
    """A row for each figure, of the integers and of the float network."""
    yield from ("| what | int8 | its float network |", "|---|---|---|")
    for key, text in _ROWS.items():
        yield f"| {text.format(**values)} | {values['int8'][key]} | {values['float'][key]} |"


def failures(values: Mapping[str, Any]) -> Iterator[str]:
    """A row for each group of boxes, and for each kind of pictures without an object."""
    yield from ("| | found with a score of 0.5 and more | boxes |", "|---|---|---|")
    for key, text in _GROUPS.items():
        last = len(values["groups"][key]) - 1
        for number, part in enumerate(values["groups"][key]):
            upper = " and more" if number == last else f" to {part['to']:g}"
            yield f"| {text}: {part['from']:g}{upper} | {part['found']:.0%} | {part['boxes']} |"
    yield from ("", "| pictures without any of its labels | with an object of 0.5 and more |", "|---|---|")
    for key, (sure, _) in values["without_objects"].items():
        yield f"| {key} | {sure:.0%} |"
