"""Picture files with what the decoders' libraries complain of while they read them."""

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import FrameError
from edgemeta.plugins.pictures import read_picture


def read_checked_picture(path: Path) -> tuple[NDArray[np.uint8], str | None]:
    """Pixels [H, W, 3] BGR, and what the decoder complained of, if it did.

    Raises FrameError as `read_picture`, and for a JPEG whose data end early: the decoder fills the rest with gray. It
    redirects the standard error of the process while it reads, so it is for commands, not for a process whose other
    threads write there.
    """
    with _standard_error_of_libraries() as lines:
        pixels = read_picture(path)
    cut = next((line for line in lines if "premature end" in line.lower()), None)
    if cut is not None:
        raise FrameError(f"image {path} is damaged: {cut}")
    return pixels, "; ".join(dict.fromkeys(lines)) or None


@contextmanager
def _standard_error_of_libraries() -> Iterator[list[str]]:
    """Yields lines, filled at the end: libjpeg and libpng write to the process's standard error, without a name."""
    lines: list[str] = []
    sys.stderr.flush()
    with tempfile.TemporaryFile() as caught:
        kept = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            yield lines
        finally:
            os.dup2(kept, 2)
            os.close(kept)
        caught.seek(0)
        lines.extend(caught.read().decode(errors="replace").split("\n"))
        lines[:] = [line.strip() for line in lines if line.strip()]
