"""Networks shipped with the package, found by name; the header of each file states how it was made."""

from pathlib import Path

from edgemeta.model.errors import ModelError
from edgemeta.model.small_file import exists, shortened

DEFAULT = "people-vehicles-animals"
"""The network of a config that names none, of the demo and of other commands."""

_FOLDER = Path(__file__).parent
_SUFFIX = ".safetensors"
_FLOAT = "-float"
_SUMS = _FOLDER / "SHA256SUMS"
"""Digests of the shipped files, as `sha256sum *.safetensors` writes them in that folder."""


def names() -> tuple[str, ...]:
    """Names of the shipped models, sorted."""
    return tuple(stem for stem in _stems() if not stem.endswith(_FLOAT))


def float_names() -> tuple[str, ...]:
    """Names of the shipped float networks, sorted: input of `quantize`, not models."""
    return tuple(stem for stem in _stems() if stem.endswith(_FLOAT))


def find(name_or_path: str) -> Path:
    """Path of a shipped name or of a file; a shipped name takes precedence over a file of that name.

    Raises ModelError if there is neither.
    """
    if name_or_path in _stems():
        return _FOLDER / f"{name_or_path}{_SUFFIX}"
    path = Path(name_or_path)
    if not exists(path):
        raise ModelError(
            f"{shortened(name_or_path)}: no such model file or shipped model (shipped: {', '.join(names()) or 'none'})"
        )
    return path


def is_shipped(file: Path) -> bool:
    """Whether the folder of a file is in the installed package, also by way of a link."""
    return file.parent.resolve() == _FOLDER.resolve()


def shipped_digest(file: Path) -> str | None:
    """Expected SHA-256, in hex, of a shipped file; None for a file that is not shipped.

    Raises ModelError if the list of digests cannot be read or lacks the file.
    """
    if file.parent != _FOLDER:
        return None
    try:
        lines = _SUMS.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ModelError(f"{_SUMS}: cannot be read (reinstall edgemeta)") from None
    digests = {name.strip(): digest for digest, _, name in (line.partition(" ") for line in lines)}
    if file.name not in digests:
        raise ModelError(f"{_SUMS}: does not list {file.name} (reinstall edgemeta)")
    return digests[file.name]


def _stems() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}")))
