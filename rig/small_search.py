"""A classification and a data set so small that a trial of a search takes milliseconds."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model import float_reference as forward
from edgemeta.model.float_file import save_float_model
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv, Dense, GlobalAverage, Relu
from edgemeta.model.tasks import Classification
from edgemeta.toolchain.search.config import SearchConfig

LABELS = ("a", "b", "c")
_EACH = 90


def write_small_search(folder: Path) -> None:
    """Write `float.safetensors` and `data.npz`, 90 images of each class, labelled by the network."""
    rng = np.random.default_rng(2)
    x = np.clip(rng.normal(128, 60, (3000, 1, 1, 3)) + rng.normal(0, 40, (3000, 8, 8, 3)), 0, 255).astype(np.uint8)
    means = forward.logits(_network(np.zeros(3, np.float32)), x).mean(0)
    model = _network(-means)
    save_float_model(model, folder / "float.safetensors")
    y = forward.logits(model, x).argmax(1)
    keep = np.concatenate([np.flatnonzero(y == label)[:_EACH] for label in range(3)])
    assert len(keep) == 3 * _EACH
    np.savez(folder / "data.npz", x=x[keep], y=y[keep], labels=np.array(LABELS))


def small_config(folder: Path, **entries: object) -> SearchConfig:
    """A search with the files of `write_small_search`; entries take the place of its own, None leaves one out."""
    small = {
        "network": str(folder / "float.safetensors"),
        "data": str(folder / "data.npz"),
        "name": "small",
        "held_out": {"share": 0.5},
        "calibration": 10,
        "images": 60,
        "rungs": [20, 40],
        "sensitivity": 20,
        "seeds": 3,
        "trials": 8,
    }
    chosen = {**small, **entries}
    return SearchConfig.model_validate({key: value for key, value in chosen.items() if value is not None})


def _network(bias: NDArray[np.float32]) -> FloatModel:
    """Two convolutions and a dense layer for 8x8 images. bias: of the logits [3]."""
    rng = np.random.default_rng(1)
    layers = (
        Conv("c0", "input", weights=rng.normal(0, 0.4, (6, 3, 3, 3)).astype(np.float32), padding=(1, 1, 1, 1)),
        Relu("r0", "c0"),
        Conv("c1", "r0", weights=rng.normal(0, 0.3, (8, 3, 3, 6)).astype(np.float32), stride=(2, 2)),
        Relu("r1", "c1"),
        GlobalAverage("g", "r1"),
        Dense("out", "g", weights=rng.normal(0, 1, (3, 8)).astype(np.float32), bias=bias),
    )
    return FloatModel("small", (8, 8, 3), layers, ("out",), Classification(LABELS))
