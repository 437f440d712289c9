"""Kernels of the baselines as variants that the product's compilers take: with their text, since they lie elsewhere."""

import re
from functools import cache
from pathlib import Path

from edgemeta.kernels.cuda.plan.launch_plan import Defines, Source

FOLDER = Path(__file__).resolve().parent.parent
"""The base folder of their paths."""

_OWN_INCLUDE = re.compile(r'^#include "(baselines/[^"]+)"\n', re.MULTILINE)


def baseline_source(path: str, entry: str, defines: Defines, folder: Path = FOLDER) -> Source:
    """The variant of a kernel file such as "baselines/paper/map.cu", its includes from the baselines inserted."""
    return Source(path, entry, defines, _text(folder / path, folder))


def files_of_baseline(path: str, folder: Path = FOLDER) -> list[Path]:
    """The kernel file and what it includes from the baselines."""
    file = folder / path
    return [file, *(folder / name for name in _OWN_INCLUDE.findall(file.read_text("utf-8")))]


@cache
def _text(file: Path, folder: Path) -> str:
    return _OWN_INCLUDE.sub(lambda match: (folder / match[1]).read_text("utf-8"), file.read_text("utf-8"))
