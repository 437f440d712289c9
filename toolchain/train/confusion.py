"""Which class is taken for which: counts, recall of each class, as text for a terminal and as a PNG."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.atomic_write import atomic_file

_COLUMNS = 80
_NAME = 14
_SHOWN = 8
"""Confusions that are listed where the table is too wide."""
_CELL, _LEAST_CELL, _SIDE = 30, 4, 1500
"""Side of a cell of the picture, its least side, and the side of the whole table that is aimed at, pixels."""


@dataclass(frozen=True, eq=False)
class Confusion:
    """counts: int64 [classes, classes], images of a class (row) that were given a label (column)."""

    labels: tuple[str, ...]
    counts: NDArray[np.int64]

    @property
    def images(self) -> int:
        """Number of images."""
        return int(self.counts.sum())

    @property
    def accuracy(self) -> float:
        """Share 0..1 of images that were given their label."""
        return float(np.trace(self.counts)) / self.images

    def recall(self) -> dict[str, float | None]:
        """Share 0..1 of each class's images that were given its label; None without images."""
        totals = self.counts.sum(1)
        shares = [int(self.counts[i, i]) / int(n) if n else None for i, n in enumerate(totals)]
        return dict(zip(self.labels, shares, strict=True))

    def text(self) -> list[str]:
        """Lines of at most 80 columns: the table, or where it is too wide the recalls and the commonest confusions."""
        cell = max(3, len(str(int(self.counts.max()))) + 1, len(str(len(self.labels))) + 1)
        number = len(str(len(self.labels)))
        head = number + 1 + _NAME + 1 + 6
        wide = head + cell * len(self.labels) > _COLUMNS
        lines = [] if wide else [" " * head + "".join(f"{i + 1:>{cell}}" for i in range(len(self.labels)))]
        for i, (label, share) in enumerate(self.recall().items()):
            percent = "-" if share is None else f"{100 * share:.0f} %"
            name = label if len(label) <= _NAME else label[: _NAME - 1] + "…"
            row = "" if wide else "".join(f"{count or '.':>{cell}}" for count in self.counts[i].tolist())
            lines.append(f"{i + 1:>{number}} {name:<{_NAME}} {percent:>6}{row}")
        return lines + (self._commonest() if wide else [])

    def _commonest(self) -> list[str]:
        wrong = self.counts - np.diag(np.diag(self.counts))
        order = np.argsort(-wrong, axis=None, kind="stable")[:_SHOWN]
        pairs = [np.unravel_index(i, wrong.shape) for i in order if wrong.flat[i]]
        return [f"{wrong[a, b]} x {self.labels[a]} taken for {self.labels[b]}"[:_COLUMNS] for a, b in pairs]

    def save_png(self, path: Path) -> None:
        """Draw the table: a row for each class, a column for each label given, dark where many (needs Pillow)."""
        from PIL import Image, ImageDraw, ImageFont

        cell = max(_LEAST_CELL, min(_CELL, _SIDE // len(self.labels)))
        font = ImageFont.load_default(max(8, cell * 2 // 5))
        names = [f"{label} {i + 1}" for i, label in enumerate(self.labels)] if cell >= _CELL // 2 else []
        left = max([cell, *(int(font.getlength(name)) + 10 for name in names)])
        side = cell * len(self.labels)
        image = Image.new("RGB", (left + side + 1, cell + side + 1), "white")
        draw = ImageDraw.Draw(image)
        shares = self.counts / np.maximum(self.counts.sum(1, keepdims=True), 1)
        for row, column in np.ndindex(self.counts.shape):
            share = float(shares[row, column])
            x, y = left + column * cell, cell + row * cell
            shade = tuple(round(255 - share * (255 - dark)) for dark in (20, 70, 140))
            draw.rectangle((x, y, x + cell, y + cell), fill=shade, outline=(200, 200, 200))
            if names and self.counts[row, column]:
                ink = "white" if share > 0.5 else "black"
                draw.text((x + cell / 2, y + cell / 2), str(self.counts[row, column]), ink, font, anchor="mm")
        for i, name in enumerate(names):
            draw.text((left - 5, cell * (i + 1.5)), name, "black", font, anchor="rm")
            draw.text((left + cell * (i + 0.5), cell / 2), str(i + 1), "black", font, anchor="mm")
        with atomic_file(path) as file:
            image.save(file, "PNG")


def confusion(labels: tuple[str, ...], y: NDArray[np.integer], guess: NDArray[np.integer]) -> Confusion:
    """Count classes y [N] against the labels given [N]."""
    counts = np.zeros((len(labels), len(labels)), np.int64)
    np.add.at(counts, (y.astype(np.int64), guess.astype(np.int64)), 1)
    return Confusion(labels, counts)
