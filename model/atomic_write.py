"""Atomic file writes: a reader finds either the old or the new content, even after a power failure."""

import os
import tempfile
from pathlib import Path


def write_atomically(target: Path, data: bytes, mode: int = 0o644) -> None:
    """Write and sync a temporary file, then rename it to `target`: `mode` is its mode. Leaves nothing on OSError."""
    temporary = None
    try:
        with tempfile.NamedTemporaryFile(dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
            temporary = Path(file.name)
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.chmod(mode)
        temporary.replace(target)
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
