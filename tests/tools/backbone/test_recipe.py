"""The recipe: the learning rate's curve, and what a checkpoint is bound to."""

from dataclasses import replace

import pytest

from tools.backbone.recipe import BackboneRecipe


def test_the_rate_rises_stays_and_falls_to_zero() -> None:
    recipe = BackboneRecipe(steps=10, epochs=10, warmup=4, decay=0.3, lr=2.0)
    assert recipe.rate(0) == pytest.approx(0.5)
    assert {recipe.rate(step) for step in range(3, 71)} == {2.0}
    assert recipe.rate(85) == pytest.approx(1.0)
    assert recipe.rate(99) == pytest.approx(2 / 30)


def test_a_run_may_become_longer_but_nothing_else() -> None:
    recipe = BackboneRecipe()
    assert recipe.digest() == replace(recipe, epochs=99).digest()
    assert recipe.digest() != replace(recipe, lr=0.1).digest()
