"""All steps on a small network: continued runs have the same bits, the result is on the grid and runs as integers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from edgemeta.model import layers as q
from edgemeta.model import reference
from edgemeta.model.errors import ModelError
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Weighted
from edgemeta.model.tasks import Embedding
from edgemeta.model.weights import PowerOfTwoWeights
from edgemeta.toolchain.data.dataset import Alternates, Dataset
from edgemeta.toolchain.errors import CheckpointError, QuantizeError
from edgemeta.toolchain.incremental.run import integer_network, parts, range_images, retrained
from edgemeta.toolchain.incremental.settings import IncrementalSettings
from edgemeta.toolchain.progress import TrainingEvent
from edgemeta.toolchain.quantize.run import integer_session
from edgemeta.toolchain.train.checkpoint import weights_digest
from tests.toolchain.incremental.frozen import frozen_share

SETTINGS = IncrementalSettings(bits=4, shares=(0.5, 1.0), epochs=2, batch=16, lr=0.05, held_out=0.2)


class KilledError(Exception):
    """Stands for a power cut."""


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_continued_run_has_the_same_bits(tmp_path: Path, small: FloatModel, images: Dataset, epoch: int) -> None:
    whole = retrained(small, SETTINGS, images, _folder(tmp_path / "whole"))

    def watch(event: TrainingEvent) -> None:
        if event.epoch == epoch:
            raise KilledError

    folder = _folder(tmp_path / "parts")
    with pytest.raises(KilledError):
        retrained(small, SETTINGS, images, folder, progress=watch)
    continued = retrained(small, SETTINGS, images, folder)
    assert weights_digest(continued.network) == weights_digest(whole.network)
    assert frozen_share(continued.network) == 1


def test_annealing_rule_and_seed_change_the_result(tmp_path: Path, small: FloatModel, images: Dataset) -> None:
    changes: list[dict[str, Any]] = [{}, {"heat": 0.0}, {"rule": "random"}, {"rule": "magnitude"}, {"seed": 2}]
    found = {
        weights_digest(retrained(small, replace(SETTINGS, **each), images, _folder(tmp_path / str(i))).network)
        for i, each in enumerate(changes)
    }
    assert len(found) == len(changes)


def test_a_checkpoint_belongs_to_its_settings_network_and_images(
    tmp_path: Path, small: FloatModel, images: Dataset
) -> None:
    short = replace(SETTINGS, epochs=1)
    retrained(small, short, images, tmp_path)
    with pytest.raises(CheckpointError, match="made with another recipe or seed"):
        retrained(small, replace(short, bits=5), images, tmp_path)
    with pytest.raises(CheckpointError, match="made with other training data"):
        retrained(small, short, Dataset(255 - images.x, images.y, images.labels), tmp_path)
    layers = list(small.layers)
    layers[0] = replace(layers[0], weights=-layers[0].weights)  # type: ignore[call-arg, union-attr]
    with pytest.raises(CheckpointError, match="made with another recipe or seed"):
        retrained(replace(small, layers=tuple(layers)), short, images, tmp_path)


@pytest.mark.parametrize("bits", [5, 3])
def test_the_integer_network_is_the_trained_one(tmp_path: Path, small: FloatModel, images: Dataset, bits: int) -> None:
    settings = replace(SETTINGS, bits=bits)
    alternates = Alternates(255 - images.x[:5], np.arange(5))
    trained = retrained(small, settings, images, tmp_path, alternates=alternates)
    integer, floats = integer_network(trained.network, range_images(small, images, settings))
    for layer in integer.layers:
        if isinstance(layer, q.Conv | q.Dense):
            weight = dict(trained.network.chain.named_parameters())[f"{layer.name}.weight"].detach().numpy()
            assert isinstance(layer.weights, PowerOfTwoWeights)
            stored = layer.weights.decode() * layer.weights.scale
            assert (stored == (weight.transpose(0, 2, 3, 1) if weight.ndim == 4 else weight)).all()
    batch = (images.x.astype(np.int16) - 128).astype(np.int8)
    found = reference.run(integer, batch)[0]
    assert np.array_equal(integer_session(integer).run(batch)[0], found)
    with torch.no_grad():
        x = torch.from_numpy(batch.transpose(0, 3, 1, 2).astype(np.float32) / 128)
        wanted = trained.network.eval()(x).numpy()
    off = found.reshape(60, 3) * integer.output_types[0].scale - wanted
    assert np.abs(off).mean() < 0.1 * wanted.std()
    assert floats.labels == small.labels


def test_each_layer_has_its_own_width(tmp_path: Path, small: FloatModel, images: Dataset) -> None:
    names = [layer.name for layer in small.layers if isinstance(layer, Weighted)]
    widths = {name: (5, 4, 3, 2)[i % 4] for i, name in enumerate(names)}
    settings = replace(SETTINGS, epochs=1, widths=widths)
    trained = retrained(small, settings, images, tmp_path)
    integer, _ = integer_network(trained.network, range_images(small, images, settings))
    found = {layer.name: layer.weights.bits for layer in integer.layers if isinstance(layer, q.Conv | q.Dense)}
    assert found == widths
    assert settings.digest("") != SETTINGS.digest("")
    assert "widths" not in SETTINGS.provenance()
    assert settings.provenance()["widths"] == widths


def test_held_out_images_are_the_same_for_every_seed(images: Dataset) -> None:
    first, second = (parts(images, replace(SETTINGS, seed=seed))[1] for seed in (1, 2))
    assert (first.x == second.x).all()
    assert len(first) == 12


def test_images_that_do_not_fit_are_refused(tmp_path: Path, small: FloatModel, images: Dataset) -> None:
    cases: list[tuple[FloatModel, Dataset, IncrementalSettings, str]] = [
        (small, Dataset(images.x[:, 1:], images.y, images.labels), SETTINGS, r"expected \(32, 32, 3\)"),
        (small, Dataset(images.x, images.y, ("a", "b", "c")), SETTINGS, r"3 classes \(a, ...\), expected those of"),
        (small, images, replace(SETTINGS, widths={"conv0": 4, "fcc": 4}), "expected the same layers"),
        (small, images, replace(SETTINGS, batch=49), "48 images to train on, expected at least one batch of 49"),
        (
            replace(small, colour="yrg"),
            images,
            SETTINGS,
            "its input is 32x32 pixels of colour 'yrg', expected a square",
        ),
        (replace(small, task=Embedding()), images, SETTINGS, "its task is embedding, expected a classification"),
    ]
    for model, data, settings, sentence in cases:
        with pytest.raises((QuantizeError, ModelError), match=sentence):
            retrained(model, settings, data, tmp_path)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"bits": 6}, "bits is 6, expected one of 5, 4, 3, 2"),
        ({"widths": {"conv0": 1}}, "conv0 is 1, expected one of 5, 4, 3, 2"),
        ({"rule": "largest"}, "the rule is 'largest', expected one of error, magnitude, random"),
        ({"shares": (0.5, 0.2)}, "the shares are 0.5, 0.2, expected growing numbers from 0 to 1"),
        ({"shares": (0.5, 1.2)}, "the shares are 0.5, 1.2, expected growing numbers from 0 to 1"),
        ({"shares": ()}, "the shares are , expected growing numbers"),
        ({"epochs": 0}, "epochs is 0 and batch 128, expected at least 1"),
        ({"lr": 0.0}, "the learning rate is 0, expected a finite number above 0"),
        ({"heat": -1.0}, "the temperature is -1, expected a finite number of at least 0"),
    ],
)
def test_settings_are_checked(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(QuantizeError, match=sentence):
        IncrementalSettings(**changes)


def test_the_last_share_is_all() -> None:
    with pytest.raises(QuantizeError, match=r"the shares are 0.2, 0.5, expected 1 as the last one"):
        IncrementalSettings(shares=(0.2, 0.5)).require_all()


def _folder(path: Path) -> Path:
    path.mkdir()
    return path
