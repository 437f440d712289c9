"""Recipes: the shipped one is read, and every wrong entry is named."""

from pathlib import Path

import pytest

from edgemeta.toolchain.errors import RecipeError
from edgemeta.toolchain.train.detector.recipe import is_detector_recipe, load_detector_recipe
from edgemeta.toolchain.train.recipe import Recipe, find_recipe, load_recipe, recipe_from, shipped_recipes


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
        ("", "the whole: Input should be a dictionary or an instance of Recipe, found nothing"),
        ("- 1", "line 1: the whole: Input should be a dictionary"),
        ("a: [", "is not valid YAML"),
        ("epochs: 3", "line 1: epochs: there is no such entry"),
        ("teacher: 3", "teacher: Input should be a dictionary"),
        ("seed: 1\nteacher: {lrate: 3}", r"line 2: teacher\.lrate: there is no such entry"),
        ("student: {epochs: -1}", r"student\.epochs: Input should be greater than or equal to 1, found -1"),
        ("student: {epochs: true}", r"student\.epochs: Input should be a valid integer, found True"),
        ("student: {epochs: 1.5}", r"student\.epochs: Input should be a valid integer, .*found 1\.5"),
        ("student: {batch: 0}", r"student\.batch: Input should be greater than or equal to 1, found 0"),
        ("teacher: {count: 0}", r"line 1: teacher\.count is 0 and student\.hard_weight 0\.1, expected 1"),
        ("network: {family: lenet}", "network is 'lenet', expected one of resnet, mobilenetv2, vgg16, alexnet"),
        ("network: {width: 9}", r"width is 9, expected 0\.125 to 8"),
        ("network: {depth: 9}", "depth is 9, expected one of 8, 14, 20"),
        ("student: {lr: .nan}", r"student\.lr: Input should be .*, found nan"),
        ("student: {lr: fast}", r"student\.lr: Input should be a valid number, found 'fast'"),
        ("student: {temperature: 0}", r"student\.temperature: Input should be greater than 0, found 0"),
        ("student: {hard_weight: 2}", r"student\.hard_weight: Input should be less than or equal to 1, found 2"),
        ("teacher: {widths: []}", r"teacher\.widths: Tuple should have at least 1 item"),
        ("teacher: {widths: [0]}", r"teacher\.widths\.0: Input should be greater than or equal to 1, found 0"),
        ("name: 3", "name: Input should be a valid string, found 3"),
        ("labels: cat", "labels: Input should be a valid tuple, found 'cat'"),
        ("labels: [1, 2]", r"labels\.0: Input should be a valid string, found 1"),
    ],
)
def test_wrong_entries(tmp_path: Path, text: str, wrong: str) -> None:
    path = tmp_path / "r.yaml"
    path.write_text(text)
    with pytest.raises(RecipeError, match=wrong) as error:
        load_recipe(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_missing_and_binary_file(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="cannot be read"):
        load_recipe(tmp_path / "none.yaml")
    (tmp_path / "b.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(RecipeError, match="cannot be read"):
        load_recipe(tmp_path / "b.yaml")


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
