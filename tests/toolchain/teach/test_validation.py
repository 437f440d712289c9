"""Pictures that were taken one after the other are held out together."""

import numpy as np

from edgemeta.toolchain.teach.pictures import natural
from edgemeta.toolchain.teach.validation import FOLDS, folds


def test_every_class_is_cut_into_blocks_of_time() -> None:
    y = np.repeat([0, 1], [20, 13])
    fold = folds(y, np.zeros((33, 2, 2, 3), np.int16))
    for label in (0, 1):
        of_class = fold[y == label]
        assert (np.diff(of_class) >= 0).all()
        assert set(of_class.tolist()) == set(range(FOLDS))
    np.testing.assert_array_equal(np.bincount(fold[:20]), [4] * FOLDS)


def test_a_cut_moves_to_where_one_recording_ends() -> None:
    """40 pictures, blocks of 8; the scene changes between pictures 9 and 10."""
    thumbnails = np.zeros((40, 2, 2, 3), np.int16)
    thumbnails[10:] = 50
    fold = folds(np.zeros(40, np.int64), thumbnails)
    assert fold[9] == 0
    assert fold[10] == 1


def test_five_pictures_are_a_fold_each() -> None:
    fold = folds(np.zeros(5, np.int64), np.zeros((5, 2, 2, 3), np.int16))
    assert fold.tolist() == [0, 1, 2, 3, 4]


def test_numbers_in_names_are_ordered_as_numbers() -> None:
    names = ["a/frame-10.png", "a/frame-2.png", "a/2026-01-02T03-04-05.jpg", "a/frame.png"]
    assert sorted(names, key=natural) == ["a/2026-01-02T03-04-05.jpg", "a/frame-2.png", "a/frame-10.png", "a/frame.png"]
