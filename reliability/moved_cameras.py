"""Moved cameras: false alarms over whole clips of steady ones, and seconds until a shifted or turned view is named.

Every clip is shown to the checks of a live camera twice a second, as it is, at a fifth of its light and with the noise
of a sensor, each several times over. Then its last pictures are shifted or turned.

    EDGEMETA_DATA=DATA python reliability/moved_cameras.py --keep     writes results/moved-cameras.json and .md
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import cv2
import numpy as np

from benchmarks.result_file import write_json, write_markdown
from edgemeta.daemon.capture.liveness import MOVED, Liveness
from edgemeta.daemon.capture.source import Frame, Pixels
from edgemeta.daemon.capture.steady_view import likeness_of, view_of
from edgemeta.daemon.config.camera import CameraConfig
from edgemeta.daemon.runtime.clock import NS
from reliability.table import PROMISED_MOVES

COMMAND = "EDGEMETA_DATA=DATA python reliability/moved_cameras.py --keep"
CLIPS = (
    *("vtest_480x360.avi", "office_fisheye_640x360.mp4", "parking_car_768x432.mp4"),
    *("street_cars_640x352.mp4", "street_cars_lossy.mp4"),
)
MOVED_AFTER = 3.0
ROUNDS = 5
"""Times that a clip is shown."""
MOVES = (("shift", 0.02), ("shift", 0.05), ("shift", 0.1), ("shift", 0.25), *(("turn", d) for d in (3, 6, 10, 15, 45)))
"""Parts of the width, and degrees."""
SHOWN_S = 20
"""Seconds for which a moved view is shown."""


def clip(path: Path) -> list[Pixels]:
    """Two pictures a second of a clip."""
    capture = cv2.VideoCapture(str(path))
    every, number, found = max(1, round(capture.get(cv2.CAP_PROP_FPS) / 2)), 0, []
    while capture.grab():
        if number % every == 0:
            found.append(np.asarray(capture.retrieve()[1], np.uint8))
        number += 1
    return found


def warped(pixels: Pixels, kind: str, by: float) -> Pixels:
    """A picture shifted by a part of its width, or turned by degrees; its edges are mirrored."""
    height, width = pixels.shape[:2]
    matrix = cv2.getRotationMatrix2D((width / 2, height / 2), by if kind == "turn" else 0, 1.0)
    matrix[0, 2] += by * width if kind == "shift" else 0
    return np.asarray(cv2.warpAffine(pixels, matrix, (width, height), borderMode=cv2.BORDER_REFLECT), np.uint8)


def dark(pictures: Sequence[Pixels]) -> list[Pixels]:
    """Pictures at a fifth of their light with the noise of a sensor."""
    chance = np.random.default_rng(0)
    noise = chance.normal(0, 2, (64 + pictures[0].shape[0], *pictures[0].shape[1:])).astype(np.float32)
    return [
        np.clip(each * np.float32(0.2) + 0.5 + noise[number % 64 :][: each.shape[0]], 0, 255).astype(np.uint8)
        for number, each in enumerate(pictures)
    ]


def reasons(liveness: Liveness, pictures: Sequence[Pixels], first: int) -> Iterator[str | None]:
    """What a camera's checks say of pictures shown twice a second; first: number of the first of them."""
    for number, pixels in enumerate(pictures, first):
        yield liveness.look(Frame(pixels, (number + 2) * NS // 2))[1].reason


def checks() -> Liveness:
    """The checks of a live camera with `moved_after`, and no others of its picture."""
    return Liveness(CameraConfig(source="rtsp://camera", moved_after=MOVED_AFTER, frozen_after=None, black_after=None))


def alarms(pictures: Sequence[Pixels]) -> int:
    """How many pictures of a steady camera are called moved, the clip being shown several times."""
    liveness = checks()
    return sum(reason == MOVED for reason in reasons(liveness, list(pictures) * ROUNDS, 0))


def named_after(pictures: Sequence[Pixels], kind: str, by: float) -> float | None:
    """Seconds until a view that was moved after the clip is named; None where it is not within SHOWN_S."""
    liveness, last = checks(), pictures[-8:]
    for _ in reasons(liveness, pictures, 0):
        pass
    moved = [warped(last[number % len(last)], kind, by) for number in range(2 * SHOWN_S)]
    said = list(reasons(liveness, moved, len(pictures)))
    return said.index(MOVED) / 2 if MOVED in said else None


def least_likeness(pictures: Sequence[Pixels]) -> float:
    """The least likeness of a clip's pictures with the mean of their views."""
    views = [view_of(each) for each in pictures]
    known = np.asarray(np.mean(views, axis=0), np.float32)
    return round(min(likeness_of(known, each) for each in views), 2)


def measured(path: Path) -> dict[str, object]:
    """All figures of a clip."""
    pictures = clip(path)
    return {
        "clip": path.name,
        "seconds_shown": len(pictures) // 2 * ROUNDS * 2,
        "called_moved": alarms(pictures) + alarms(dark(pictures)),
        "least_likeness": least_likeness(pictures),
        "named_after_s": {f"{kind} {by:g}": named_after(pictures, kind, by) for kind, by in MOVES},
    }


def is_named(times: object) -> bool:
    """Whether each move that is promised was named in time. times: seconds by move."""
    assert isinstance(times, dict)
    return all(times[move] is not None and times[move] <= MOVED_AFTER + 1 for move in PROMISED_MOVES)


def main() -> None:
    """Measure all clips and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--keep", action="store_true", help="write the result files")
    keep = parser.parse_args().keep
    found = [measured(Path(os.environ["EDGEMETA_DATA"]) / "video" / name) for name in CLIPS]
    heads = [f"shift {100 * by:g} %" if kind == "shift" else f"turn {by:g}°" for kind, by in MOVES]
    rows = [f"| clip | shown, s | pictures called moved | {' | '.join(heads)} |", "|---" * (3 + len(heads)) + "|"]
    for each in found:
        times = each["named_after_s"]
        assert isinstance(times, dict)
        named = " | ".join("-" if time is None else f"{time:g}" for time in times.values())
        rows.append(f"| {each['clip']} | {each['seconds_shown']} | {each['called_moved']} | {named} |")
    text = (
        "\n".join(rows) + f"\n\nSeconds until a moved view is named with `moved_after: {MOVED_AFTER:g}`; -: not named."
    )
    print(text)
    if keep:
        write_json("moved-cameras", COMMAND, {"moved_after_s": MOVED_AFTER, "clips": found})
        write_markdown("moved-cameras", COMMAND, text)
    kept = all(not each["called_moved"] and is_named(each["named_after_s"]) for each in found)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
