"""Two data sets that should have no picture in common: one for training, one for measuring."""

from pathlib import Path

import numpy as np

from edgemeta.model.callbacks import Report
from edgemeta.toolchain.data.copies import picture_digests
from edgemeta.toolchain.data.dataset import Dataset
from edgemeta.toolchain.errors import DataError


def check_apart(train: Dataset, test: Dataset, train_path: Path, test_path: Path, report: Report) -> None:
    """Compare by the pixels of each picture, whatever the files are.

    Raises DataError if every test picture is also a training picture; if some are, reports their number.
    """
    if train.x.shape[1:] != test.x.shape[1:]:
        return  # the training refuses such data sets
    seen = set(picture_digests(train.x))
    common = sum(digest in seen for digest in picture_digests(test.x))
    if common == len(test):
        raise DataError(
            f"{test_path}: all {common:,} test pictures are also training pictures of {train_path}, expected others"
        )
    if common:
        report(f"{test_path}: {common:,} of {len(test):,} test pictures are also training pictures of {train_path}")


def without_copies(data: Dataset, others: Dataset) -> Dataset:
    """Those of `data` whose pixels no picture of `others` has; it may be none."""
    seen = set(picture_digests(others.x))
    return data.take(np.array([digest not in seen for digest in picture_digests(data.x)], dtype=np.bool_))
