"""Calls g++ for the emulation."""

import hashlib
import os
import subprocess
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

from edgemeta.kernels.cuda.compiler_tool import CompilerError


def run_gcc(arguments: Sequence[str]) -> str:
    """Run g++ and give what it prints. Raises CompilerError."""
    try:
        done = subprocess.run(
            ["g++", *arguments], capture_output=True, text=True, check=True, env={**os.environ, "LC_ALL": "C"}
        )
    except FileNotFoundError:
        raise CompilerError("the CUDA emulation needs g++, which is not on PATH: install it") from None
    except subprocess.CalledProcessError as error:
        raise CompilerError(f"g++ failed on the CUDA emulation: {error.stderr.strip()}") from None
    return done.stdout.strip()


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
