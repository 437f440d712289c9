"""Views of the student: plain, then mixed, with the right labels."""

from typing import Any

import numpy as np

from edgemeta.toolchain.recipe import recipe_from
from edgemeta.toolchain.train.augment import STREAM_VIEWS, ImageBank, draw_mix, draw_view
from edgemeta.toolchain.train.views import StudentView

RECIPE = recipe_from({"views": {"count": 2, "mixed": 1, "pad": 1, "mix_least": 0.4}}, "r")


def test_plain_views(pixels: Any, classes: Any) -> None:
    bank, index = ImageBank(pixels, 1), np.array([4, 0, 7])
    view = StudentView(RECIPE, bank, 1)
    assert (view.pixels(index) == bank.cut(draw_view(RECIPE.seed, STREAM_VIEWS, 1, 20, 1, 0.5), index)).all()
    assert (view.label_shares(index, classes, 10) == np.eye(10)[classes[index]]).all()


def test_mixed_views(pixels: Any, classes: Any) -> None:
    bank, index = ImageBank(pixels, 1), np.arange(20)
    view, mix = StudentView(RECIPE, bank, 2), draw_mix(RECIPE.seed, 2, 20, 0.4)
    assert sorted(mix.partner) == list(range(20))
    assert (mix.share >= 0.4).all()
    plain = bank.cut(draw_view(RECIPE.seed, STREAM_VIEWS, 2, 20, 1, 0.5), index).astype(np.float64)
    other = bank.cut(draw_view(RECIPE.seed, STREAM_VIEWS, 2, 20, 1, 0.5), mix.partner)
    share = mix.share.reshape(-1, 1, 1, 1)
    assert np.abs(view.pixels(index) - (share * plain + (1 - share) * other)).max() <= 0.51
    labels = view.label_shares(index, classes, 10)
    np.testing.assert_allclose(labels.sum(1), 1, rtol=1e-6)
    i = int(np.flatnonzero(classes[mix.partner] != classes)[0])
    np.testing.assert_allclose(labels[i, classes[i]], mix.share[i], rtol=1e-6)
