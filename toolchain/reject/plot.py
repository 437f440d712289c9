"""A picture of what a rule of rejection does: how much evidence known and foreign images have."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.errors import ToolchainError

WIDTH, ROW, LEFT, TOP = 900, 46, 250, 50
_BINS = 120
_INK, _KNOWN, _FOREIGN, _LINE = (40, 40, 40), (150, 110, 30), (60, 100, 210), (0, 0, 200)


def save_plot(kinds: Mapping[str, NDArray[np.integer[Any]]], threshold: int, title: str, path: Path) -> None:
    """Write a PNG with one histogram of evidence [N] for each kind of images, the first one known, and the threshold.

    Evidence beyond the middle 98 percent of all is drawn at the border. Raises ToolchainError if it cannot be written.
    """
    every = np.concatenate(list(kinds.values()))
    low, high = (float(value) for value in np.percentile(every, (1, 99)))
    low, high = min(low, threshold - 1.0), max(high, threshold + 1.0)
    canvas = np.full((TOP + ROW * len(kinds) + 40, WIDTH, 3), 255, np.uint8)
    _write(canvas, title, (12, 30), 0.55)

    def across(value: float) -> int:
        return LEFT + round((WIDTH - LEFT - 90) * (value - low) / (high - low))

    for number, (name, evidence) in enumerate(kinds.items()):
        ground = TOP + ROW * (number + 1) - 6
        counts, borders = np.histogram(np.clip(evidence, low, high), _BINS, (low, high))
        for count, begin, end in zip(counts, borders, borders[1:], strict=False):
            height = round((ROW - 10) * count / max(1, counts.max()))
            colour = _KNOWN if number == 0 else _FOREIGN
            cv2.rectangle(canvas, (across(begin), ground - height), (across(end) - 1, ground), colour, -1)
        _write(canvas, name if len(name) <= 30 else f"...{name[-27:]}", (12, ground - 8), 0.45)
        share = float((evidence >= threshold).mean())
        _write(canvas, f"{share:.1%}", (WIDTH - 80, ground - 8), 0.45)
    bottom = canvas.shape[0] - 34
    cv2.line(canvas, (across(threshold), TOP - 8), (across(threshold), bottom), _LINE)
    _write(
        canvas, f"threshold {threshold}: no label to the left; right, the share that gets one", (12, bottom + 22), 0.45
    )
    encoded, data = cv2.imencode(".png", canvas)
    try:
        if not encoded:
            raise OSError(0, "the picture cannot be encoded")
        path.write_bytes(data.tobytes())
    except OSError as error:
        raise ToolchainError(f"{path}: cannot be written ({error.strerror})") from None


def _write(canvas: NDArray[np.uint8], text: str, place: tuple[int, int], size: float) -> None:
    cv2.putText(canvas, text, place, cv2.FONT_HERSHEY_SIMPLEX, size, _INK, 1, cv2.LINE_AA)
