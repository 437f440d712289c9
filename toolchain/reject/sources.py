"""Where known and foreign pictures come from: the paths of `edgemeta model reject`."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from edgemeta.model.callbacks import Report
from edgemeta.model.graph import Model
from edgemeta.plugins.pictures import PICTURE_SUFFIXES
from edgemeta.toolchain.data.dataset import NUMBERS, Dataset, Split, is_dataset, load_dataset
from edgemeta.toolchain.data.frames import ArrayFrames, ClipFrames, FolderFrames, Frames
from edgemeta.toolchain.data.labelled_images import in_labels
from edgemeta.toolchain.errors import DataError

MOST = 3000
"""Greatest number of pictures or frames used of one path of foreign pictures."""
KNOWN = 10_000
"""Greatest number of pictures used of one path of known pictures, equally many of each class."""


def labelled(path: Path, model: Model, split: Split, report: Report) -> Dataset:
    """A labelled data set at the size of the model's square input, with its labels. Raises DataError."""
    height, width, _ = model.input.shape
    if height != width:
        raise DataError(f"{path}: data sets hold squares, and the model's input is {height}x{width} pixels")
    dataset = load_dataset(path, split, size=height, report=report, labels=model.labels)
    return replace(dataset, labels=model.labels, y=in_labels(dataset.y, dataset.labels, model.labels, path, report))


def known_pictures(paths: Sequence[Path], model: Model, report: Report) -> Dataset | None:
    """The pictures of several data sets as one; None without any. Raises DataError."""
    sets = [labelled(path, model, "train", report).balanced(KNOWN) for path in paths]
    if not sets:
        return None
    return Dataset(np.concatenate([each.x for each in sets]), np.concatenate([each.y for each in sets]), sets[0].labels)


def foreign_pictures(path: Path, report: Report) -> Frames:
    """The pictures of a folder (with its sub-folders), a data set, a picture or a video. Raises DataError."""
    if not path.exists():
        raise DataError(f"{path}: does not exist, expected a folder of pictures, a data set, a picture or a video")
    if is_dataset(path):
        x = load_dataset(path, labels=NUMBERS).x
        return ArrayFrames(x[np.arange(min(len(x), MOST)) * len(x) // min(len(x), MOST)], str(path))
    if path.is_dir() or path.suffix.lower() in PICTURE_SUFFIXES:
        return FolderFrames(path, MOST, report)
    return ClipFrames(path, MOST)
