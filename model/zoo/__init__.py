"""Networks that come with the package, found by name: our own weights; each file's header says how it was made."""

from pathlib import Path

from edgemeta.model.errors import ModelError

_FOLDER = Path(__file__).parent
_SUFFIX = ".safetensors"


def names() -> tuple[str, ...]:
    """Give the shipped names, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob(f"*{_SUFFIX}")))


def find(name_or_path: str) -> Path:
    """Give the file of a shipped name or of a path; a shipped name wins over a file of that name.

    Raises ModelError where it is neither.
    """
    if name_or_path in names():
        return _FOLDER / f"{name_or_path}{_SUFFIX}"
    path = Path(name_or_path)
    if not path.exists():
        raise ModelError(
            f"{name_or_path}: no such model file, nor a shipped model (shipped: {', '.join(names()) or 'none'})"
        )
    return path
