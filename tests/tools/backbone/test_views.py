"""Views: the same numbers give the same pixels; what has a label is a labelled image."""

from dataclasses import replace

import numpy as np
import pytest

from tools.backbone.recipe import BackboneRecipe
from tools.backbone.train import Pictures
from tools.backbone.views import UNLABELLED, Views, in_other_light, part_of, scaled


def drawn(recipe: BackboneRecipe, pictures: Pictures) -> Views:
    return Views(recipe, pictures.images, pictures.y, pictures.alternates, pictures.photographs)


def test_a_batch_depends_on_seed_epoch_and_number_alone(recipe: BackboneRecipe, pictures: Pictures) -> None:
    views, again = drawn(recipe, pictures), drawn(recipe, pictures)
    x, y = views.batch(3, 1)
    views.batch(0, 0)
    assert (x == again.batch(3, 1)[0]).all()
    assert (y == views.batch(3, 1)[1]).all()
    for other in (views.batch(3, 2), views.batch(4, 1), drawn(replace(recipe, seed=8), pictures).batch(3, 1)):
        assert (x != other[0]).any()


def test_labelled_images_come_first_and_the_rest_has_no_label(recipe: BackboneRecipe, pictures: Pictures) -> None:
    x, y = drawn(recipe, pictures).batch(0, 0)
    assert x.shape == (8, 32, 32, 3)
    assert x.dtype == np.uint8
    assert (y[:4] >= 0).all()
    assert (y[4:] == UNLABELLED).all()


def test_only_images_before_the_held_out_ones_are_drawn(recipe: BackboneRecipe, pictures: Pictures) -> None:
    assert len(pictures.images) == 20
    assert pictures.held_out.base is pictures.images.base
    assert set(pictures.alternates) == {2, 3}


def test_alternate_pixels_are_used_half_of_the_time(recipe: BackboneRecipe, pictures: Pictures) -> None:
    only = {number: np.full((32, 32, 3), 255, np.uint8) for number in range(20)}
    views = Views(replace(recipe, labelled=8, mosaics=0), np.zeros_like(pictures.images), pictures.y, only, [])
    bright = sum(int((views.batch(0, number)[0].mean((1, 2, 3)) > 20).sum()) for number in range(50))
    assert 150 < bright < 250


@pytest.mark.parametrize("shape", [(32, 32), (200, 20), (7, 150)])
def test_a_part_lies_within_the_picture_and_has_its_area(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    places = np.stack(np.meshgrid(*map(np.arange, shape), indexing="ij"), 2).astype(np.uint8)
    for _ in range(50):
        part = part_of(rng, places, 0.4)
        rows, columns = part.shape[:2]
        assert rows * columns >= 0.38 * shape[0] * shape[1] or rows == columns == min(shape)
        assert (part[:, :, 0] == part[:1, :1, 0] + np.arange(rows)[:, np.newaxis]).all()
        assert (part[:, :, 1] == part[:1, :1, 1] + np.arange(columns)).all()


def test_scaling_keeps_what_is_even_and_mirrors_half_of_the_time() -> None:
    ramp = np.repeat(np.linspace(0, 255, 64).astype(np.uint8)[np.newaxis, :, np.newaxis], 64, 0).repeat(3, 2)
    rising = [bool(scaled(np.random.default_rng(seed), ramp, 16)[0, -1, 0] > 128) for seed in range(100)]
    assert 30 < sum(rising) < 70
    assert (scaled(np.random.default_rng(0), np.full((9, 13, 3), 77, np.uint8), 16) == 77).all()


def test_other_light_stays_within_a_byte_and_is_often_different() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (16, 16, 3), np.uint8)
    made = [in_other_light(np.random.default_rng(seed), picture) for seed in range(40)]
    assert {each.dtype for each in made} == {np.dtype(np.uint8)}
    assert 1 < sum((each == picture).all() for each in made) < 20
    assert any((each[..., 0] == each[..., 2]).all() for each in made)
