"""A small classification and a data set that searches of seconds run on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from edgemeta.toolchain.charts import Chart
from edgemeta.toolchain.decompose.binary import Decomposition, decompose
from edgemeta.toolchain.quantize import weight_schemes
from edgemeta.toolchain.search.config import SearchConfig
from rig.small_search import small_config, write_small_search

KNOWN: dict[object, Decomposition] = {}


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `float.safetensors` and `data.npz`."""
    folder = tmp_path_factory.mktemp("search")
    write_small_search(folder)
    return folder


@pytest.fixture(autouse=True)
def decomposed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of one network decompose the same weights, which takes most of their time."""
    monkeypatch.setattr(weight_schemes, "decompose", decomposition)


def decomposition(weight: NDArray[np.float32], width: int) -> Decomposition:
    """That of weights [O, n], made once."""
    key = weight.shape, weight.tobytes(), width
    if key not in KNOWN:
        KNOWN[key] = decompose(weight, width)
    return KNOWN[key]


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """For searches whose charts no test looks at."""
    monkeypatch.setattr(Chart, "svg", lambda chart: f"<svg>{chart.title}</svg>")


@pytest.fixture
def config(workshop: Path) -> Any:
    """A function that makes a small search's config."""

    def make(**entries: Any) -> SearchConfig:
        return small_config(workshop, **entries)

    return make
