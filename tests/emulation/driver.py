"""Builds the emulated CUDA driver: a libcuda.so.1 under which the real PyCUDA and the real session run without a GPU.

A program finds it when its folder is in LD_LIBRARY_PATH. Its one device is called "edgemeta CPU emulation (not a GPU)"
and takes modules of `compiler.EmulationCompiler` only. tests/emulation/README.md has its settings, counters and faults.
"""

import tempfile
from pathlib import Path

from tests.emulation.compiler import STORE
from tests.emulation.gcc import digest, gcc_version, run_gcc

_SOURCES = Path(__file__).resolve().parent / "libcuda"
_ABI = Path(__file__).resolve().parent / "runtime" / "abi.h"
_NAME = "libcuda.so.1"
_OPTIONS = ("-std=c++17", "-O1", "-g1", "-fPIC", "-fvisibility=hidden", "-shared", f"-Wl,-soname,{_NAME}")


def build(folder: Path | None = None) -> Path:
    """The library, built unless the folder (by default this user's cache) has it. Raises CompilerError."""
    texts = [*_SOURCES.iterdir(), _ABI]
    version = f"{gcc_version()}-{digest(texts, _OPTIONS)}".replace(" ", "-")
    library = (folder or STORE) / f"driver-{version}" / _NAME
    if not library.is_file():
        library.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=library.parent) as temporary:
            made = Path(temporary) / _NAME
            unit = Path(temporary) / "driver.cpp"  # one unit compiles in half the time: the headers are read once
            unit.write_text("".join(f'#include "{source}"\n' for source in sorted(_SOURCES.glob("*.cpp"))))
            run_gcc([*_OPTIONS, str(unit), "-ldl", "-o", str(made)])
            made.replace(library)
    return library
