"""A model's name with the digest it must have: taken apart, and held against the bytes that are then used."""

import hashlib
from pathlib import Path

import pytest

from edgemeta.model.address import Address, DigestError
from edgemeta.model.errors import ModelError
from edgemeta.model.file import save
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find

HEX = "0123456789abcdef" * 4


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("resnet8-cifar10", Address("resnet8-cifar10")),
        (f"resnet8-cifar10@sha256:{HEX}", Address("resnet8-cifar10", HEX)),
        (f"a@b/c.safetensors@sha256:{HEX.upper()}", Address("a@b/c.safetensors", HEX)),
        ("someone@home", Address("someone@home")),
    ],
)
def test_an_address_with_and_without_a_digest(text: str, address: Address) -> None:
    assert Address.parse(text) == address
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    "text", ["m@sha256:", f"m@sha256:{HEX[:-1]}", f"m@sha256:{HEX}0", f"@sha256:{HEX}", f"m@sha256:{'g' * 64}"]
)
def test_an_invalid_digest_is_refused(text: str) -> None:
    with pytest.raises(DigestError, match="expected a name or path, `@sha256:` and 64 hexadecimal digits"):
        Address.parse(text)


def test_only_the_file_with_the_digest_is_accepted(small_model: Model, tmp_path: Path) -> None:
    path = tmp_path / "small.safetensors"
    digest = save(small_model, path)
    assert Address(str(path), digest).read() == (path, path.read_bytes())
    with pytest.raises(DigestError) as caught:
        Address(str(path), HEX).read()
    assert str(caught.value) == f"{path}: sha256 {digest}, expected sha256 {HEX}"


def test_a_shipped_name_may_have_a_digest() -> None:
    file = find("resnet8-cifar10")
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert Address("resnet8-cifar10", digest).read()[0] == file
    with pytest.raises(DigestError, match=HEX):
        Address("resnet8-cifar10", HEX).read()


def test_a_missing_file_with_a_digest_is_an_error() -> None:
    with pytest.raises(ModelError, match="resnet9: no such model file"):
        Address("resnet9", HEX).read()
