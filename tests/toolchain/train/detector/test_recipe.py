"""Recipes of detectors, and what is wrong with one."""

from pathlib import Path

import pytest

from edgemeta.toolchain.errors import RecipeError
from edgemeta.toolchain.train.detector.recipe import DetectorRecipe, is_detector_recipe, load_detector_recipe
from edgemeta.toolchain.train.recipe import find_recipe, shipped_recipes


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
        ("network: {family: yolov9}", r"network\.family: Input should be 'yolov3-tiny', found 'yolov9'"),
        ("network: {width: 20}", r"network\.width: Input should be less than or equal to 8, found 20"),
        ("network: [1]", "network: Input should be a dictionary"),
        ("epochs: 0", "epochs: Input should be greater than or equal to 1, found 0"),
        ("teacher: {count: 1}", "teacher: there is no such entry"),
        ("validation: 0.9", r"validation: Input should be less than or equal to 0\.5, found 0\.9"),
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
    with pytest.raises(RecipeError, match="is not valid YAML"):
        is_detector_recipe(written(tmp_path, "a: [1"))
