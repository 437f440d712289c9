"""A search over a detection: coloured squares, found by a network whose trials take milliseconds."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgemeta.model.file import load
from edgemeta.model.float_file import save_float_model
from edgemeta.model.layers import GlobalAverage
from edgemeta.model.tasks import Embedding
from edgemeta.toolchain.data.boxed_images import save_boxed_images
from edgemeta.toolchain.errors import DataError, SearchError
from edgemeta.toolchain.search.config import SearchConfig, load_search
from edgemeta.toolchain.search.evaluator import prepare
from edgemeta.toolchain.search.report import html
from edgemeta.toolchain.search.result import best, outcomes, save_chosen, values_of
from edgemeta.toolchain.search.run import RESULT, search
from rig.small_detection import SIZE, cell_network, cell_pictures


@pytest.fixture
def config(tmp_path: Path) -> SearchConfig:
    save_float_model(cell_network(), tmp_path / "float.safetensors")
    save_boxed_images(cell_pictures(80, 1), tmp_path / "data.npz")
    save_boxed_images(cell_pictures(20, 2), tmp_path / "test.npz")
    entries = {
        "network": str(tmp_path / "float.safetensors"),
        "data": str(tmp_path / "data.npz"),
        "name": "squares",
        "held_out": {"share": 0.5},
        "calibration": 10,
        "images": 40,
        "rungs": [10, 20],
        "sensitivity": 10,
        "seeds": 3,
        "trials": 6,
    }
    return SearchConfig.model_validate(entries)


def test_the_bits_of_a_detection_are_searched(config: SearchConfig, tmp_path: Path) -> None:
    searched = search(config, tmp_path)
    found = outcomes(searched.trials)
    chosen = best(found)
    assert len(searched.trials) == 6
    assert all(0 <= trial.user_attrs[RESULT]["accuracy"] <= 1 for trial in searched.trials)
    assert chosen.float_accuracy > 0.8
    assert set(chosen.weights) == {"classes", "boxes"}
    for name, row in searched.sensitivity.items():
        assert row[8] == 0
        assert row[2] > row[6] or name == "weights.classes"  # two binary bases are enough for these
    saved = save_chosen(searched, chosen, tmp_path / "best.safetensors", tmp_path / "test.npz", print)
    model = load(saved.path)
    assert saved.test is not None
    assert model.provenance["test_map"] == saved.test.accuracy
    values = json.loads(json.dumps(values_of(config, searched, saved, None)))
    assert values["measure"] == "mean average precision"
    assert values["test_accuracy"] == pytest.approx(100 * saved.test.accuracy, abs=1e-3)
    assert "mean average precision of 40 held-out images" in html(searched)


@pytest.mark.parametrize("name", ["yolov3-tiny-accurate", "yolov3-tiny-binary"])
def test_the_examples_in_a_small_form(config: SearchConfig, tmp_path: Path, repository: Path, name: str) -> None:
    example = repository / "configs" / "search" / f"{name}.yaml"
    small = {key: getattr(config, key) for key in ("network", "data", "calibration", "images", "sensitivity", "seeds")}
    searched = search(load_search(example, **small, held_out={"share": 0.5}, rungs=[10], trials=3), tmp_path)
    assert searched.config.scheme == "binary"
    assert len(searched.trials) == 3


def test_more_bits_are_nearer(config: SearchConfig) -> None:
    from edgemeta.toolchain.search.evaluator import Evaluator

    setup = prepare(config, print)
    evaluator = Evaluator(setup.network.model, setup.judge)
    accuracies, errors = [], []
    for bits in (2, 4, 8):
        running = evaluator.run(setup.network.build(setup.network.uniform(bits, bits)))
        accuracies.append(running.accuracy(40))
        errors.append(running.error(40))
        running.close()
    assert errors[0] > errors[1] > errors[2] > 0
    assert accuracies[0] <= accuracies[2]
    assert accuracies[2] == pytest.approx(evaluator.float_accuracy(40), abs=0.05)
    assert evaluator.evaluated == 3 * 40


def test_what_cannot_be_searched_is_named(config: SearchConfig, tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="the held-out part has 40 images, expected at least the 41 of `images`"):
        prepare(config.model_copy(update={"images": 41}), print)
    trained = SearchConfig.model_validate(
        {**config.model_dump(exclude={"rungs"}), "scheme": "fixed", "weights": [2, 4], "training": {}}
    )
    with pytest.raises(SearchError, match="trials are trained for a classification, found a detection"):
        prepare(trained, print)
    np.savez(tmp_path / "plain.npz", x=np.zeros((4, SIZE, SIZE, 3), np.uint8), y=np.zeros(4, int))
    with pytest.raises(DataError, match="has no boxes, expected"):
        prepare(config.model_copy(update={"data": str(tmp_path / "plain.npz")}), print)
    layers = (*cell_network().layers, GlobalAverage("vector", "classes"))
    vectors = replace(cell_network(), task=Embedding(), layers=layers, outputs=("vector",))
    save_float_model(vectors, tmp_path / "vectors.safetensors")
    with pytest.raises(SearchError, match="a search is for a classification or a detection, found embedding"):
        prepare(config.model_copy(update={"network": str(tmp_path / "vectors.safetensors")}), print)
