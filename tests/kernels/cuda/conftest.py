"""Fixtures for tests of compiled kernels that are written as text."""

from collections.abc import Callable
from pathlib import Path

import pytest

from edgemeta.kernels.cuda.plan.launch_plan import Source

Write = Callable[..., Source]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a kernel named `kernel` to a file and return its variant."""

    def source(text: str, name: str = "kernel.cu", **defines: int) -> Source:
        path = tmp_path / name
        path.write_text(text)
        return Source(str(path), "kernel", tuple(defines.items()))

    return source
