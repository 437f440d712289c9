"""A small classification and a data set that searches of seconds run on."""

from pathlib import Path
from typing import Any

import pytest

from edgemeta.toolchain.search.config import SearchConfig
from rig.small_search import small_config, write_small_search


@pytest.fixture(scope="session")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `float.safetensors` and `data.npz`."""
    folder = tmp_path_factory.mktemp("search")
    write_small_search(folder)
    return folder


@pytest.fixture
def config(workshop: Path) -> Any:
    """A function that makes a small search's config."""

    def make(**entries: Any) -> SearchConfig:
        return small_config(workshop, **entries)

    return make
