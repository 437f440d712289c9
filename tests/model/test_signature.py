"""Signatures of model files: made and verified, compatible with OpenSSL, with one error text per failure."""

import builtins
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgemeta.model import signature
from edgemeta.model.signature import SignatureError, check_key, make_key, sign, signature_of, verify


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private and a public key."""
    private = tmp_path_factory.mktemp("keys") / "maker.pem"
    return private, make_key(private)


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Somebody else's public key."""
    return make_key(tmp_path_factory.mktemp("other") / "other.pem")


@pytest.fixture
def signed(keys: tuple[Path, Path], tmp_path: Path) -> Path:
    """A file with its signature."""
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"what a model file holds")
    signature_of(path).write_bytes(sign(path.read_bytes(), keys[0]))
    return path


def test_the_signing_key_is_found_among_the_trusted_keys(signed: Path, keys: tuple[Path, Path], other: Path) -> None:
    assert signature_of(signed).name == "model.safetensors.sig"
    assert verify(signed.read_bytes(), signed, [other, keys[1]]) == signature_of(signed).read_bytes()
    with pytest.raises(
        SignatureError, match=r"model.safetensors.sig: not a signature of this file by a trusted key \(.*pub"
    ):
        verify(signed.read_bytes(), signed, [other])


@given(at=st.integers(0, 22), bit=st.integers(0, 7))
def test_one_flipped_bit_invalidates_the_signature(
    keys: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, at: int, bit: int
) -> None:
    path = tmp_path_factory.mktemp("signed") / "m"
    data = b"what a model file holds"
    signature_of(path).write_bytes(sign(data, keys[0]))
    broken = bytearray(data)
    broken[at] ^= 1 << bit
    with pytest.raises(SignatureError, match="not a signature of this file"):
        verify(bytes(broken), path, [keys[1]])


def test_openssl_verifies_and_makes_the_same_signatures(signed: Path, keys: tuple[Path, Path]) -> None:
    openssl = shutil.which("openssl")
    assert openssl, "Debian package openssl"
    place = str(signature_of(signed))
    check = [openssl, "pkeyutl", "-verify", "-pubin", "-inkey", str(keys[1]), "-rawin", "-in", str(signed)]
    assert subprocess.run([*check, "-sigfile", place], capture_output=True, check=False).returncode == 0
    subprocess.run(
        [openssl, "pkeyutl", "-sign", "-inkey", str(keys[0]), "-rawin", "-in", str(signed), "-out", place], check=True
    )
    assert verify(signed.read_bytes(), signed, [keys[1]]) == signature_of(signed).read_bytes()
    signed.write_bytes(b"another")
    assert subprocess.run([*check, "-sigfile", place], capture_output=True, check=False).returncode == 1


@pytest.mark.parametrize("content", [b"", bytes(63), bytes(65), bytes(1 << 20)])
def test_a_signature_of_another_length(signed: Path, keys: tuple[Path, Path], content: bytes) -> None:
    signature_of(signed).write_bytes(content)
    with pytest.raises(SignatureError, match=r"bytes, expected a signature of 64"):
        verify(signed.read_bytes(), signed, [keys[1]])


def test_a_missing_signature(signed: Path, keys: tuple[Path, Path]) -> None:
    signature_of(signed).unlink()
    with pytest.raises(SignatureError, match=r"sig: cannot be read: No such file or directory, expected a signature"):
        verify(signed.read_bytes(), signed, [keys[1]])


def test_keys_are_private_and_never_overwritten(keys: tuple[Path, Path]) -> None:
    private, public = keys
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    with pytest.raises(SignatureError, match=r"maker.pem: cannot be written"):
        make_key(private)
    check_key(public)


@given(content=st.binary(max_size=200))
def test_invalid_keys(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("key") / "k"
    path.write_bytes(content)
    with pytest.raises(SignatureError, match="k: not an Ed25519 public key"):
        check_key(path)
    with pytest.raises(SignatureError, match="k: not an Ed25519 private key"):
        sign(b"", path)


def test_keys_of_another_type(keys: tuple[Path, Path], tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        NoEncryption,
        PrivateFormat,
    )

    path = tmp_path / "k"
    path.write_bytes(
        ec.generate_private_key(ec.SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )
    with pytest.raises(SignatureError, match="not an Ed25519 private key"):
        sign(b"", path)
    locked = BestAvailableEncryption(b"secret")
    path.write_bytes(ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
    with pytest.raises(SignatureError, match="without a passphrase"):
        sign(b"", path)
    with pytest.raises(SignatureError, match="not an Ed25519 public key"):
        check_key(keys[0])


def test_without_the_library_the_error_names_the_package(
    monkeypatch: pytest.MonkeyPatch, keys: tuple[Path, Path]
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **more: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SignatureError, match=r"pip install 'edgemeta\[signature\]'"):
        signature.check_key(keys[1])
