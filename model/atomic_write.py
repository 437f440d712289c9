"""Atomic file writes: a reader finds either the old or the new content, even after a power failure."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from edgemeta.model.errors import EdgemetaError


@contextmanager
def atomic_file(target: Path, mode: int = 0o644) -> Iterator[BinaryIO]:
    """A temporary file beside `target`, which is synced and renamed to it at the end: `mode` is its mode.

    Its name is a dot, that of `target`, and a suffix. It is deleted after an exception in the block. Raises OSError.
    """
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            temporary = Path(file.name)
            yield cast("BinaryIO", file)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(target)
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_atomically(target: Path, data: bytes, mode: int = 0o644) -> None:
    """Write a file with this content (`atomic_file`)."""
    with atomic_file(target, mode) as file:
        file.write(data)


def prepare_output(out: Path) -> None:
    """Make the folder of a file that a command will write, and try to write there. Raises EdgemetaError."""
    try:
        if out.is_dir():
            raise EdgemetaError(f"{out}: is a folder, expected the name of the file to write")
        out.parent.mkdir(parents=True, exist_ok=True)
        part = out.with_name(out.name + ".part")
        part.open("ab").close()
        part.unlink(missing_ok=True)
        if out.exists():
            out.open("ab").close()
    except OSError as error:
        raise EdgemetaError(f"{out}: cannot be written ({error.strerror})") from error
