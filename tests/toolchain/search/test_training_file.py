"""From a search within a budget to a trained network of the found widths, in integers."""

from copy import copy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from edgemeta.model import reference
from edgemeta.model.errors import ModelError
from edgemeta.model.file import load
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv, Dense, GlobalAverage
from edgemeta.model.preprocess import look_up
from edgemeta.model.tasks import Classification, Embedding
from edgemeta.model.weights import FixedWeights
from edgemeta.plugins.registry import choose
from edgemeta.toolchain.errors import SearchError
from edgemeta.toolchain.search.config import SearchConfig
from edgemeta.toolchain.search.result import best, outcomes
from edgemeta.toolchain.search.run import search
from edgemeta.toolchain.search.training_file import training_config, write_training

torch = pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.model.float_file import save_float_model  # noqa: E402
from edgemeta.toolchain.simulate.training.config import load_config  # noqa: E402
from edgemeta.toolchain.simulate.training.exported import export_run  # noqa: E402
from edgemeta.toolchain.simulate.training.train import train_simulated  # noqa: E402
from edgemeta.toolchain.train.designs import Design  # noqa: E402
from edgemeta.toolchain.train.networks import build  # noqa: E402
from edgemeta.toolchain.train.start import design_of  # noqa: E402
from tests.toolchain.simulate.training.conftest import coloured  # noqa: E402, F401 (a fixture)

LABELS = ("red", "green", "blue")


def _search(folder: Path, data: Path, **entries: Any) -> SearchConfig:
    """A search of a random ResNet-8 of a quarter of the width."""
    torch.manual_seed(1)
    network = build(Design(classes=3, size=24, width=0.25)).eval()
    save_float_model(network.classification("small", LABELS, {}), folder / "float.safetensors")
    small = {
        "name": "small",
        "network": str(folder / "float.safetensors"),
        "data": str(data),
        "scheme": "fixed",
        "held_out": {"share": 0.3},
        "calibration": 9,
        "images": 15,
        "rungs": [],
        "sensitivity": 6,
        "features": [6, 8],
        "times_smaller": 9,
        "objective": {"alpha": 10, "beta": 0, "gamma": 0.1},
        "trials": 4,
    }
    return SearchConfig.model_validate({**small, **entries})


@pytest.mark.gate("trains a network")
def test_search_then_train_then_integers(coloured: tuple[Path, Path], tmp_path: Path) -> None:  # noqa: F811
    searched = search(_search(tmp_path, coloured[0]), tmp_path)
    found = best(outcomes(searched.trials))
    assert searched.budget is not None
    assert found.packed_bytes <= searched.budget
    written, config = tmp_path / "training.yaml", tmp_path / "short.yaml"
    write_training(searched.config, searched.setup.network, found.bits, written)
    assert load_config(written).simulation is not None
    config.write_text(yaml.safe_dump({**yaml.safe_load(written.read_text()), "epochs": 1, "batch": 16}))
    train_simulated(config, *coloured, tmp_path / "run")
    exported = export_run(config, *coloured, tmp_path / "run", tmp_path / "model.safetensors")
    model = load(exported.path)
    layers = [layer for layer in model.layers if isinstance(layer, Conv | Dense)]
    assert {layer.name: layer.weights.bits for layer in layers if isinstance(layer.weights, FixedWeights)} == dict(
        found.weights
    )
    packed = sum(-(-layer.weights.decode().size * found.weights[layer.name] // 8) for layer in layers)
    assert packed == found.packed_bytes
    pixels = np.load(coloured[1])["x"]
    images = look_up(model.preprocessing.table, pixels)
    session = choose("cpu").compile(model, {})
    for ours, wanted in zip(session.run(images), reference.run(model, images), strict=True):
        np.testing.assert_array_equal(ours, wanted)
    session.close()


def test_powers_of_two(coloured: tuple[Path, Path], tmp_path: Path) -> None:  # noqa: F811
    config = _search(tmp_path, coloured[0], scheme="power-of-two", times_smaller=None, trials=1)
    searched = search(config, tmp_path)
    found = best(outcomes(searched.trials))
    rules = training_config(config, searched.setup.network, found.bits)["rules"]
    assert [rule["layers"] for rule in rules] == list(found.weights)
    assert "activation" not in rules[0]
    assert rules[3]["weight"] == {"kind": "power_of_two", "bits": found.weights[rules[3]["layers"]]}


def test_a_residual_network_from_elsewhere_is_not_trained_here() -> None:
    """It has as many convolutions as ResNet-8, with names of its own and batch norms folded."""
    names = ["input", *(f"block_{number}" for number in range(9))]
    weight = np.ones((3, 1, 1, 3), np.float32)
    blocks = [Conv(name, source, weights=weight) for source, name in pairwise(names)]
    end = GlobalAverage("mean", names[-1]), Dense("logits", "mean", weights=weight[:, 0, 0])
    model = FloatModel("elsewhere", (24, 24, 3), (*blocks, *end), ("logits",), Classification(LABELS))
    with pytest.raises(ModelError, match="elsewhere: is no network that `edgemeta train` makes"):
        design_of(model, "elsewhere")


def test_what_is_not_trained_here(config: Any, tmp_path: Path) -> None:
    searched = search(config(scheme="fixed", trials=1, rungs=[]), tmp_path)
    network, bits = searched.setup.network, best(outcomes(searched.trials)).bits
    entries = training_config(searched.config, network, bits)  # of a network that nobody here made
    assert "network" not in entries
    assert entries["start"] == searched.config.network
    other = copy(network)
    other.model = replace(network.model, task=Embedding())
    with pytest.raises(SearchError, match="its task is embedding, expected a classification to train"):
        training_config(searched.config, other, bits)
    with pytest.raises(SearchError, match="the simulator has no binary bases"):
        training_config(searched.config.model_copy(update={"scheme": "binary"}), network, bits)
