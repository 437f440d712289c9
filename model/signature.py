"""Signatures of model files: Ed25519 (RFC 8032) over the file's bytes, detached, 64 bytes in `<model file>.sig`.

Keys are PEM files, PKCS #8 and SubjectPublicKeyInfo, so that OpenSSL signs and verifies the same files. Needs the
package `cryptography`: pip install 'edgemeta[signature]'.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from edgemeta.model.errors import EdgemetaError
from edgemeta.model.small_file import FileError, read_small_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SUFFIX = ".sig"
LENGTH = 64

MOST_KEY_BYTES = 65_536


class SignatureError(EdgemetaError):
    """A key that cannot be used, or a model file without a valid signature by a trusted key."""


def signature_of(model_file: Path) -> Path:
    """Path of a model file's signature."""
    return model_file.with_name(model_file.name + SUFFIX)


def make_key(path: Path) -> Path:
    """Write a new private key, readable by its owner only, and its public key `<path>.pub`; return the latter's path.

    Neither file may exist before. Raises SignatureError.
    """
    _require_library()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

    private = Ed25519PrivateKey.generate()
    public = path.with_name(f"{path.name}.pub")
    _write_new(path, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0o600)
    _write_new(public, private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), 0o644)
    return public


def sign(data: bytes, key_file: Path) -> bytes:
    """Return the signature of a model file's bytes by a private key. Raises SignatureError."""
    return _private_key(key_file).sign(data)


def verify(data: bytes, model_file: Path, trusted: list[Path]) -> bytes:
    """Check a model file's signature against the trusted public keys and return it.

    Raises SignatureError if no trusted key made it for these bytes.
    """
    keys = [_public_key(path) for path in trusted]
    place = signature_of(model_file)
    signature = _read(place, LENGTH, f"a signature of {LENGTH} bytes")
    if len(signature) != LENGTH:
        raise SignatureError(f"{place}: has {len(signature)} bytes, expected a signature of {LENGTH}")
    from cryptography.exceptions import InvalidSignature

    for key in keys:
        try:
            key.verify(signature, data)
        except InvalidSignature:
            continue
        return signature
    raise SignatureError(f"{place}: not a signature of this file by a trusted key ({', '.join(map(str, trusted))})")


def check_key(path: Path) -> None:
    """Raise SignatureError unless the file contains a public key."""
    _public_key(path)


def _require_library() -> None:
    try:
        import cryptography  # noqa: F401 - the extra `signature`
    except ImportError as error:
        raise SignatureError(
            "signatures need the package cryptography, which is not installed: pip install 'edgemeta[signature]'"
        ) from error


def _private_key(path: Path) -> "Ed25519PrivateKey":
    _require_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(_read(path, MOST_KEY_BYTES, "a private key"), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PrivateKey):
        raise SignatureError(f"{path}: not an Ed25519 private key (PEM, PKCS #8, without a passphrase)")
    return key


def _public_key(path: Path) -> "Ed25519PublicKey":
    _require_library()
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(_read(path, MOST_KEY_BYTES, "a public key"))
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, Ed25519PublicKey):
        raise SignatureError(f"{path}: not an Ed25519 public key (PEM)")
    return key


def _read(path: Path, most: int, expected: str) -> bytes:
    """Bytes of a file, at most `most`."""
    try:
        return read_small_file(path, most)
    except FileError as error:
        raise SignatureError(f"{path}: {error.reason}, expected {expected}") from None


def _write_new(path: Path, content: bytes, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except OSError as error:
        raise SignatureError(f"{path}: cannot be written ({error.strerror})") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
