"""Builds a C++ library with AddressSanitizer and UndefinedBehaviorSanitizer, and runs a Python program on it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def run_sanitized(repository: Path, folder: Path, library: str, program: str) -> str:
    """What the program prints; library: "cpu" or "simulate", built in `folder`. Skips the test without build tools."""
    compiler = shutil.which("g++")
    if compiler is None or shutil.which("cmake") is None:
        pytest.skip("no build tools (Debian packages g++, cmake)")
    configure = ["cmake", "-S", str(repository), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"]
    subprocess.run([*configure, "-DEDGEMETA_SANITIZE=ON"], check=True, capture_output=True)
    build = ["cmake", "--build", str(folder), "--parallel", "2", "--target", f"edgemeta_{library}"]
    subprocess.run(build, check=True, capture_output=True)
    runtimes = [_path_of(compiler, name) for name in ("libasan.so", "libubsan.so", "libstdc++.so.6")]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={
            **os.environ,
            f"EDGEMETA_{library.upper()}_LIBRARY": str(folder / "kernels" / library / f"libedgemeta_{library}.so"),
            "LD_PRELOAD": ":".join(runtimes),
            "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's own
        },
        capture_output=True,
        text=True,
        timeout=1000,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.strip()


def _path_of(compiler: str, name: str) -> str:
    command = [compiler, f"-print-file-name={name}"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
