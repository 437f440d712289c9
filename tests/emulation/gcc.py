"""Calls g++ for the emulation."""

import hashlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from edgemeta.kernels.cuda.compile.tool import CompilerError


def run_gcc(arguments: Sequence[str]) -> str:
    """Run g++ and return its output. Raises CompilerError."""
    return _run(["g++", *arguments])


def link(objects: Iterable[Path], library: Path) -> None:
    """Join objects that need nothing but the C library of the process that loads them. Raises CompilerError.

    The linker itself takes a tenth of the time that g++ takes to call it.
    """
    _run(["ld", "-shared", "-z", "noexecstack", *map(str, objects), "-o", str(library)])


@cache
def gcc_version() -> str:
    """Name and release, such as "g++ 12.2.0". Raises CompilerError."""
    return f"g++ {run_gcc(['-dumpfullversion'])}"


def digest(paths: Iterable[Path], *options: object) -> str:
    """Of the texts of files and of options, in hex."""
    total = hashlib.sha256(repr(options).encode())
    for path in sorted(paths):
        total.update(path.read_bytes())
    return total.hexdigest()[:16]


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"})
    except FileNotFoundError:
        raise CompilerError(f"the CUDA emulation needs {command[0]}, which is not on PATH: install g++") from None
    except subprocess.CalledProcessError as error:
        raise CompilerError(f"{command[0]} failed on the CUDA emulation: {error.stderr.strip()}") from None
    return done.stdout.strip()
