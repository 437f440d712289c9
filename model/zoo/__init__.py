"""Networks that come with the package, found by name: our own weights; each file's header says how it was made."""

from pathlib import Path

from edgemeta.model.errors import ModelError

_FOLDER = Path(__file__).parent
_SUFFIX = ".safetensors"
_FLOAT = "-float"
_SUMS = _FOLDER / "SHA256SUMS"
"""Each shipped file's digest, as `sha256sum *.safetensors` writes it in that folder."""


def names() -> tuple[str, ...]:
    """Give the shipped models, sorted."""
    return tuple(stem for stem in _stems() if not stem.endswith(_FLOAT))


def float_names() -> tuple[str, ...]:
    """Give the shipped float networks, sorted: what `quantize` makes models of, and no model itself."""
    return tuple(stem for stem in _stems() if stem.endswith(_FLOAT))


def find(name_or_path: str) -> Path:
    """Give the file of a shipped name or of a path; a shipped name wins over a file of that name.

    Raises ModelError where it is neither.
    """
    if name_or_path in _stems():
        return _FOLDER / f"{name_or_path}{_SUFFIX}"
    path = Path(name_or_path)
    if not path.exists():
        raise ModelError(
            f"{name_or_path}: no such model file, nor a shipped model (shipped: {', '.join(names()) or 'none'})"
        )
    return path


def shipped_digest(file: Path) -> str | None:
    """Give the SHA-256, in hex, that a shipped file must have; None for a file that does not ship with the package.

    Raises ModelError where the list of them cannot be read or lacks the file.
    """
    if file.parent != _FOLDER:
        return None
    try:
        lines = _SUMS.read_text("ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ModelError(f"{_SUMS}: cannot be read (install edgemeta again)") from None
    digests = {name.strip(): digest for digest, _, name in (line.partition(" ") for line in lines)}
    if file.name not in digests:
        raise ModelError(f"{_SUMS}: does not name {file.name} (install edgemeta again)")
    return digests[file.name]


def _stems() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}")))
