"""Every shipped name refers to a model that loads; an unknown name is an error."""

import hashlib
import shutil
from pathlib import Path

import pytest

from edgemeta.model import zoo
from edgemeta.model.address import Address, DigestError
from edgemeta.model.errors import ModelError
from edgemeta.model.file import encode, load
from edgemeta.model.zoo import find, float_names, names, shipped_digest


@pytest.mark.parametrize("name", names())
def test_shipped_models_load_and_store_to_the_same_bytes(name: str) -> None:
    model = load(find(name))
    assert encode(model) == find(name).read_bytes()
    assert model.name == name
    assert len(model.task.labels) >= 10
    assert len(model.labels) >= 10
    assert model.provenance


@pytest.mark.parametrize("name", [*names(), *float_names()])
def test_every_shipped_file_has_its_digest_in_the_list(name: str) -> None:
    """If a file has changed: `sha256sum *.safetensors > SHA256SUMS` in its folder."""
    assert shipped_digest(find(name)) == hashlib.sha256(find(name).read_bytes()).hexdigest()


def test_other_files_have_no_shipped_digest(tmp_path: Path) -> None:
    assert shipped_digest(tmp_path / "resnet8-cifar10.safetensors") is None


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The shipped files as another installation has them."""
    folder = tmp_path / "zoo"
    shutil.copytree(find("resnet8-cifar10").parent, folder)
    monkeypatch.setattr(zoo, "_FOLDER", folder)
    monkeypatch.setattr(zoo, "_SUMS", folder / "SHA256SUMS")
    return folder


def test_a_damaged_shipped_file_is_refused_without_a_digest_in_the_address(installed: Path) -> None:
    file = installed / "resnet8-cifar10.safetensors"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(DigestError) as caught:
        Address("resnet8-cifar10").read()
    assert caught.value.found == f"{file}: damaged, its sha256 is {hashlib.sha256(data).hexdigest()}"
    assert caught.value.expected.endswith("as shipped (reinstall edgemeta)")


@pytest.mark.parametrize("content", [None, b"\xff", b"", b"one-word\n"])
def test_an_unusable_list_of_digests_is_an_error(installed: Path, content: bytes | None) -> None:
    (installed / "SHA256SUMS").unlink()
    if content is not None:
        (installed / "SHA256SUMS").write_bytes(content)
    with pytest.raises(ModelError, match=r"SHA256SUMS: .*\(reinstall edgemeta\)"):
        Address("resnet8-cifar10").read()


def test_float_networks_are_found_but_are_not_models() -> None:
    assert "resnet8-cifar10" in names()
    assert "resnet8-cifar10-float" in float_names()
    for name in float_names():
        with pytest.raises(ModelError, match="is a float model: make an integer model of it with `edgemeta quantize`"):
            load(find(name))


def test_files_of_older_versions_keep_their_bytes() -> None:
    """A field that is newer than a file is not written where it has its default, so the digest stays."""
    for name in names():
        assert encode(load(find(name))) == find(name).read_bytes()


def test_a_path_is_found_and_an_unknown_name_lists_the_shipped_ones(tmp_path: Path) -> None:
    path = tmp_path / "mine.safetensors"
    path.touch()
    assert find(str(path)) == path
    with pytest.raises(ModelError, match=r"resnet9: no such model file or shipped model \(shipped: .*resnet8-cifar10"):
        find("resnet9")
