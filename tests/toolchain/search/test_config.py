from pathlib import Path
from typing import Any

import pytest

from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.search.config import Step, load_search
from edgemeta.toolchain.train.recipe import find_recipe, load_recipe


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("network: x\nname: y\nweihgts: [2]\n", "line 3: weihgts: there is no such entry"),
        ("network: x\nname: y\nweights: [4, 3]\n", "weights of scheme binary are [4, 3], expected rising"),
        ("network: x\nname: y\nscheme: power-of-two\nweights: [2]\n", "numbers of 3 .. 5"),
        ("network: x\nname: y\nfeatures: [1, 2]\n", "line 3: features: bits of feature maps are [1, 2]"),
        ("network: x\nname: y\nrungs: [3000]\n", "rungs are [3000], expected rising numbers below images, 2000"),
        ("network: x\nname: y\ngoals: [bytes]\n", "expected two or more different goals"),
        ("network: x\nname: y\ncuda_arch: sm_5\n", "cuda_arch is sm_5, expected one of sm_53"),
        ("network: x\nname: y\nsensitivity: 5000\n", "sensitivity is 5000 images, expected at most images"),
        ("network: [x\n", "is not valid YAML"),
        ("network: x\nname: y\ntraining: {}\n", "found training of scheme binary, expected fixed or power-of-two"),
        ("network: x\nname: y\nscheme: fixed\ntraining: {epochs: [2, 1]}\n", "epochs are [2, 1], expected rising"),
        ("network: x\nname: y\nscheme: fixed\ntraining: {epochs: [0, 1]}\n", "greater than or equal to 1"),
        ("network: x\nname: y\nscheme: fixed\nrungs: [9]\ntraining: {}\n", "found rungs and training, expected one"),
    ],
)
def test_what_is_wrong_is_named_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "search.yaml"
    path.write_text(text)
    with pytest.raises(SearchError) as error:
        load_search(path)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_options_take_the_place_of_entries(tmp_path: Path) -> None:
    path = tmp_path / "search.yaml"
    path.write_text("network: x\nname: y\ndata: one.npz\ntrials: 7\n")
    assert load_search(path, trials=None, data="other.npz").data == "other.npz"
    assert load_search(path, trials=9).trials == 9
    assert load_search(path).trials == 7


def test_a_study_is_the_same_wherever_it_is_stored_and_however_long(config: Any) -> None:
    assert config(storage="x", trials=3, data="y", lease=5).digest() == config().digest()
    assert config(seed=2).digest() != config().digest()
    assert config().steps == (Step(20), Step(40), Step(60))
    assert config(goals=["accuracy", "bytes"]).steps == (Step(60),)
    trained = {"scheme": "fixed", "training": {"epochs": [1, 3]}, "rungs": None}
    assert config(**trained).steps == (Step(60, 1), Step(60, 3))
    assert config(**trained, goals=["accuracy", "bytes"]).steps == (Step(60, 3),)
    assert config(goals=["accuracy", "bytes"]).directions == ("maximize", "minimize")
    assert config(scheme="power-of-two").widths == (3, 4, 5)


def test_trials_are_judged_by_what_the_shipped_recipes_hold_out(tmp_path: Path) -> None:
    (tmp_path / "search.yaml").write_text("network: x\nname: y\n")
    part = load_search(tmp_path / "search.yaml").held_out
    recipe = load_recipe(find_recipe("resnet8-cifar10"))
    assert (part.share, part.seed) == (recipe.validation, recipe.seed)
