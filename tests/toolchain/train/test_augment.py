"""Augmented views: the same three integers, the same pixels."""

from typing import Any

import numpy as np

from edgemeta.toolchain.train.augment import ImageBank, View, draw_view


def test_draws_are_reproducible_and_independent() -> None:
    one, same, other = (draw_view(1, 2, k, 500, 2, 0.5) for k in (0, 0, 1))
    assert all((getattr(one, f) == getattr(same, f)).all() for f in ("flip", "dy", "dx", "alternate"))
    assert (one.flip != other.flip).any()
    assert set(one.dy) == set(range(5))
    assert 0.4 < one.flip.mean() < 0.6


def test_the_middle_crop_is_the_image(pixels: Any) -> None:
    still = View(np.zeros(20, bool), np.full(20, 2), np.full(20, 2), np.zeros(20, bool))
    cut = ImageBank(pixels, 2).cut(still, np.arange(20))
    assert cut.flags.c_contiguous
    assert (cut == pixels.transpose(0, 3, 1, 2)).all()


def test_crop_and_mirror_against_plain_indexing(pixels: Any) -> None:
    view = draw_view(3, 2, 0, 20, 3, 0.0)
    order = np.random.default_rng(0).permutation(20)
    cut = ImageBank(pixels, 3).cut(view, order)
    for image, i in zip(cut, order, strict=True):
        padded = np.pad(pixels[i], ((3, 3), (3, 3), (0, 0)), mode="reflect")
        wanted = padded[view.dy[i] : view.dy[i] + 32, view.dx[i] : view.dx[i] + 32]
        wanted = wanted[:, ::-1] if view.flip[i] else wanted
        assert (image == wanted.transpose(2, 0, 1)).all()


def test_alternates_are_used_only_for_images_that_have_them(pixels: Any) -> None:
    other = 255 - pixels[[4, 9]]
    bank = ImageBank(pixels, 0, other, np.array([4, 9]))
    view = View(np.zeros(20, bool), np.zeros(20, int), np.zeros(20, int), np.ones(20, bool))
    cut = bank.cut(view, np.arange(20)).transpose(0, 2, 3, 1)
    assert (cut[[4, 9]] == other).all()
    rest = np.setdiff1d(np.arange(20), [4, 9])
    assert (cut[rest] == pixels[rest]).all()
