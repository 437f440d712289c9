"""Recipes: the shipped one is read, and every wrong entry is named."""

from pathlib import Path

import pytest

from edgemeta.toolchain.errors import RecipeError
from edgemeta.toolchain.train.recipe import Recipe, load_recipe, recipe_from


def test_the_shipped_recipe_has_every_entry(repository: Path) -> None:
    recipe = load_recipe(repository / "toolchain" / "train" / "recipes" / "resnet8-cifar10.yaml")
    assert recipe.name == "resnet8-cifar10"
    assert recipe.teacher.widths == (32, 128, 256)
    assert recipe.student.weight_decay == 2e-4


def test_defaults() -> None:
    assert recipe_from({}, "r") == Recipe()


def test_digest_follows_the_parts_named() -> None:
    one, two = recipe_from({"student": {"epochs": 3}}, "r"), recipe_from({"student": {"epochs": 4}}, "r")
    assert one.digest("teacher") == two.digest("teacher")
    assert one.digest("student") != two.digest("student")
    assert recipe_from({"seed": 2}, "r").digest("teacher") != one.digest("teacher")
    assert one.digest() != two.digest()


def test_the_digest_of_resnet8_is_that_of_recipes_without_a_network() -> None:
    """Runs that began before recipes had one can be continued."""
    plain, same = recipe_from({}, "r"), recipe_from({"network": {"width": 1}}, "r")
    other = recipe_from({"network": {"width": 0.5}}, "r")
    assert plain.digest("student") == same.digest("student") != other.digest("student")
    assert plain.digest() == same.digest() != other.digest()
    assert plain.digest("teacher") == "2e25db27c2b9128aafdb4d9008a7dce8f03ec2d63b628d118d0bb54e5a244d40"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "the recipe is empty, expected a mapping"),
        ("- 1", "the recipe is a list"),
        ("a: [", "not a YAML recipe"),
        ("epochs: 3", "unknown entry epochs, expected one of name, labels, seed"),
        ("teacher: 3", "teacher is a int, expected a mapping"),
        ("teacher: {lrate: 3}", "unknown entry teacher.lrate"),
        ("student: {epochs: -1}", "student.epochs is -1, expected an integer that is not negative"),
        ("student: {epochs: true}", "student.epochs is True"),
        ("student: {epochs: 1.5}", "student.epochs is 1.5"),
        ("student: {batch: 0}", "student.batch is 0, expected at least 1"),
        ("teacher: {count: 0}", "teacher.count is 0 and student.hard_weight 0.1, expected 1"),
        ("network: {family: lenet}", "network is 'lenet', expected one of resnet, mobilenetv2, vgg16, alexnet"),
        ("network: {width: 9}", "width is 9, expected 0.125 to 8"),
        ("network: {depth: 9}", "depth is 9, expected one of 8, 14, 20"),
        ("student: {lr: .nan}", "student.lr is nan, expected a finite number"),
        ("student: {lr: fast}", "student.lr is 'fast'"),
        ("student: {temperature: 0}", "student.temperature is 0, expected more than 0"),
        ("student: {hard_weight: 2}", "student.hard_weight is 2, expected at most 1"),
        ("teacher: {widths: []}", "teacher.widths is .., expected a list of positive integers"),
        ("teacher: {widths: [0]}", "expected a list of positive integers"),
        ("name: 3", "name is 3, expected a string"),
        ("labels: cat", "labels is 'cat', expected a list of names"),
        ("labels: [1, 2]", "expected a list of names"),
    ],
)
def test_wrong_entries(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=wrong) as error:
        load_recipe(path)
    assert str(error.value).startswith(f"{path}: ")
    assert "\n" not in str(error.value)


def test_missing_and_binary_file(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="the recipe cannot be read"):
        load_recipe(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="the recipe cannot be read"):
        load_recipe(tmp_path / "b.yaml")
