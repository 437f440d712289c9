"""Every shipped name leads to a model that loads, and a name that is none is told so."""

from pathlib import Path

import pytest

from edgemeta.model.errors import ModelError
from edgemeta.model.file import encode, load
from edgemeta.model.zoo import find, float_names, names


@pytest.mark.parametrize("name", names())
def test_shipped_models_load_and_store_to_the_same_bytes(name: str) -> None:
    model = load(find(name))
    assert encode(model) == find(name).read_bytes()
    assert len(model.task.labels) == 10
    assert model.provenance


def test_float_networks_are_found_but_are_no_models() -> None:
    assert "resnet8-cifar10" in names()
    assert "resnet8-cifar10-float" in float_names()
    for name in float_names():
        with pytest.raises(ModelError, match="a safetensors file without an edgemeta model"):
            load(find(name))


def test_a_path_is_found_and_an_unknown_name_lists_the_shipped_ones(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    path.touch()
    assert find(str(path)) == path
    with pytest.raises(
        ModelError, match=r"resnet9: no such model file, nor a shipped model \(shipped: .*resnet8-cifar10"
    ):
        find("resnet9")
