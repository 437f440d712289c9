"""Recipes are found by shipped name or by path."""

from pathlib import Path

import pytest

from edgemeta.toolchain.errors import RecipeError
from edgemeta.toolchain.train.detector.recipe import is_detector_recipe, load_detector_recipe
from edgemeta.toolchain.train.recipe import load_recipe
from edgemeta.toolchain.train.recipe_files import find_recipe, shipped_recipes


def test_every_shipped_recipe_loads() -> None:
    assert "resnet8-cifar10" in shipped_recipes()
    for name in shipped_recipes():
        path = find_recipe(name)
        recipe = load_detector_recipe(path) if is_detector_recipe(path) else load_recipe(path)
        assert recipe.name == name


def test_an_empty_address(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("name: mine")
    assert find_recipe(str(tmp_path / "mine.yaml")) == tmp_path / "mine.yaml"
    with pytest.raises(RecipeError, match=r"no such recipe, expected a file or a shipped name .*resnet8-cifar10"):
        find_recipe("mine")
