"""The recipe for own pictures: what changes from epoch to epoch."""

import pytest

from edgemeta.toolchain.train.designs import MAX_SIZE, MIN_SIZE, RESNET
from edgemeta.toolchain.train.pictures_recipe import PicturesRecipe


@pytest.mark.parametrize("size", [MIN_SIZE, 33, 96, MAX_SIZE])
@pytest.mark.parametrize("epochs", [1, 2, 100])
def test_views_grow_to_the_size_of_the_network(size: int, epochs: int) -> None:
    recipe = PicturesRecipe(epochs=epochs)
    sides = [recipe.view_size(epoch, size) for epoch in range(epochs)]
    assert sides == sorted(sides)
    assert sides[0] >= MIN_SIZE
    full = [side for epoch, side in enumerate(sides) if epoch >= 0.75 * epochs]
    assert set(full) <= {size}
    assert all(side % 8 == 0 for side in sides if side != size)


def test_the_first_views_have_half_the_side() -> None:
    assert PicturesRecipe().view_size(0, 96) == 48


def test_the_size_of_the_views_belongs_to_the_run() -> None:
    assert PicturesRecipe().digest(RESNET, None) != PicturesRecipe(first_size=1.0).digest(RESNET, None)
