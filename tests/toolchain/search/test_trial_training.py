"""Searches whose trials are trained: what is measured is what is written, and what cannot be trained is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.model.file import load
from edgemeta.model.float_file import save_float_model
from edgemeta.model.layers import Weighted
from edgemeta.toolchain.search.config import load_search
from edgemeta.toolchain.search.objective import bits_of
from edgemeta.toolchain.search.result import best, outcomes, save_chosen
from edgemeta.toolchain.search.run import RESULT, search

pytest.importorskip("torch", reason="PyTorch is not installed (pip install 'edgemeta[train]')")

from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.designs import Design
from edgemeta.toolchain.train.networks import build
from edgemeta.toolchain.train.start import ENTRY, described

LABELS = ("dark", "grey", "light")
TRAINED = {"scheme": "fixed", "weights": [2, 4, 8], "features": [4, 8], "sensitivity": 0, "seeds": 0, "trials": 4}
TRAINING = {"images": 60, "epochs": [1, 2], "batch": 20, "lr": 0.05}
TEACHING_STEPS = 30


@pytest.fixture(scope="module")
def trainable(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A small trained residual network, and images that it tells apart by their light."""
    folder = tmp_path_factory.mktemp("trainable")
    rng = np.random.default_rng(4)
    y = np.arange(180) % len(LABELS)
    x = np.clip(rng.normal(50 + 75 * y[:, None, None, None], 30, (180, 24, 24, 3)), 0, 255).astype(np.uint8)
    np.savez(folder / "data.npz", x=x, y=y, labels=np.array(LABELS))
    design = Design(len(LABELS), 24, width=0.125)
    model = _trained(design, x, y).classification("tiny", LABELS, {ENTRY: described(design)})
    save_float_model(model, folder / "float.safetensors")
    files = {"network": str(folder / "float.safetensors"), "data": str(folder / "data.npz")}
    return {**files, "rungs": None, "training": TRAINING}


def _trained(design: Design, x: NDArray[np.uint8], y: NDArray[np.int64]) -> TorchNetwork:
    """A network that classifies uint8 images [N, H, W, 3]: what the trials learn from must itself be right."""
    import torch

    torch.manual_seed(1)
    network = build(design)
    images = torch.from_numpy(x).permute(0, 3, 1, 2).contiguous() / 128 - 1
    steps = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(TEACHING_STEPS):
        steps.zero_grad()
        loss: Any = torch.nn.functional.cross_entropy(network(images), torch.from_numpy(y))
        loss.backward()
        steps.step()
    return network.eval()


@pytest.mark.gate("4 s each: a search with training")
@pytest.mark.parametrize("scheme", ["fixed", "power-of-two"])
def test_trials_are_trained_and_the_chosen_network_is_the_measured_one(
    config: Any, trainable: dict[str, Any], tmp_path: Path, scheme: str
) -> None:
    weights = [2, 4, 8] if scheme == "fixed" else [3, 5]
    searched = search(config(**{**TRAINED, **trainable, "scheme": scheme, "weights": weights}), tmp_path)
    results = [trial.user_attrs[RESULT] for trial in searched.trials]
    assert {result["epochs"] for result in results} <= {1, 2}
    assert not any("error" in result for result in results)
    chosen = best(outcomes(searched.trials))
    untrained = searched.setup.build(chosen.bits, 0)
    trained = searched.setup.build(chosen.bits, 2)
    assert trained.layers != untrained.layers
    saved = save_chosen(searched, chosen, tmp_path / "best.safetensors", None, print)
    model = load(saved.path)
    assert [each.weights.decode().tolist() for each in model.layers if isinstance(each, Weighted)] == [
        each.weights.decode().tolist() for each in trained.layers if isinstance(each, Weighted)
    ]
    study = model.provenance["search"]
    assert isinstance(study, dict)
    assert study["training"] == {**TRAINING, "epochs": 2}
    assert study["judged_accuracy"] == chosen.accuracy
    assert chosen.accuracy > 0.5


@pytest.mark.gate("6 s: two searches with training")
def test_a_trial_is_trained_to_the_same_integers_each_time(
    config: Any, trainable: dict[str, Any], tmp_path: Path
) -> None:
    chosen = config(**TRAINED, **trainable)
    one, other = (search(chosen, tmp_path / name) for name in ("one", "other"))
    assert [trial.params for trial in one.trials] == [trial.params for trial in other.trials]
    assert [trial.values for trial in one.trials] == [trial.values for trial in other.trials]
    bits = bits_of(one.trials[0].params)
    first, second = (searched.setup.build(bits, 1) for searched in (one, other))
    for a, b in zip(first.layers, second.layers, strict=True):
        if isinstance(a, Weighted) and isinstance(b, Weighted):
            np.testing.assert_array_equal(a.weights.decode(), b.weights.decode())


@pytest.mark.gate("4 s: a search with training")
def test_the_example_in_a_small_form(config: Any, trainable: dict[str, Any], tmp_path: Path, repository: Path) -> None:
    given = load_search(repository / "configs" / "search" / "resnet8-trained.yaml")
    entries = given.model_dump(exclude={"network", "data", "name", "held_out", "calibration", "images", "training"})
    searched = search(config(**{**entries, **trainable, "trials": 2, "seeds": 1, "sensitivity": 20}), tmp_path)
    assert len(searched.trials) == 2
    assert searched.budget is not None


def test_a_network_that_edgemeta_did_not_make_is_trained(config: Any, tmp_path: Path) -> None:
    searched = search(config(**TRAINED, rungs=None, training=TRAINING), tmp_path)
    assert len(searched.trials) == TRAINED["trials"]
    assert outcomes(searched.trials), "every trial was stopped early"
