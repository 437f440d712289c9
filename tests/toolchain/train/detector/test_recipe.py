"""Recipes of detectors, and what is wrong with one."""

from pathlib import Path

import pytest

from edgemeta.toolchain.errors import RecipeError
from edgemeta.toolchain.train.detector.recipe import DetectorRecipe, is_detector_recipe, load_detector_recipe
from edgemeta.toolchain.train.recipe_files import find_recipe, shipped_recipes


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text, "utf-8")
    return path


def test_the_shipped_recipe() -> None:
    path = find_recipe("yolov3-tiny-scenes")
    recipe = load_detector_recipe(path)
    assert (recipe.name, recipe.network.width, recipe.epochs) == ("yolov3-tiny-scenes", 0.5, 20)
    others = [name for name in shipped_recipes() if is_detector_recipe(find_recipe(name))]
    assert others == ["yolov3-tiny-scenes"]


def test_every_entry_counts_in_the_digest(tmp_path: Path) -> None:
    assert load_detector_recipe(written(tmp_path, "name: detector")) == DetectorRecipe()
    other = load_detector_recipe(written(tmp_path, "network: {width: 0.25}"))
    assert other.digest() != DetectorRecipe().digest()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("network: {family: yolov9}", "network.family is 'yolov9', expected yolov3-tiny"),
        ("network: {width: 20}", "network.width is 20, expected 0.125 to 8"),
        ("network: [1]", "network is a list, expected a mapping of names to values"),
        ("epochs: 0", "epochs is 0, expected at least 1"),
        ("teacher: {count: 1}", "unknown entry teacher, expected one of name, seed"),
        ("validation: 0.9", "validation is 0.9, expected at most 0.5"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(RecipeError, match=message) as error:
        load_detector_recipe(path)
    assert str(error.value).startswith(str(path))


def test_other_files_are_no_recipes_of_detectors(tmp_path: Path) -> None:
    assert not is_detector_recipe(written(tmp_path, "name: small"))
    assert not is_detector_recipe(written(tmp_path, "[1, 2]"))
    assert not is_detector_recipe(written(tmp_path, "network: none"))
    with pytest.raises(RecipeError, match="not a YAML recipe"):
        is_detector_recipe(written(tmp_path, "a: [1"))
