"""nvcc as a subprocess: the compiler of the device's own CUDA toolkit."""

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from edgemeta.kernels.cuda.compile.tool import CompilerError, first_error

_DEADLINE = 300.0
"""Seconds for one kernel; a Jetson Nano needs a few."""


def toolkit_folders() -> list[Path]:
    """Folders that may contain a CUDA toolkit: $CUDA_HOME, $CUDA_PATH, /usr/local/cuda."""
    named = [os.environ[key] for key in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(key)]
    return [Path(folder) for folder in dict.fromkeys([*named, "/usr/local/cuda"])]


@dataclass(frozen=True)
class Nvcc:
    """One nvcc; its release and targets are queried once."""

    path: Path

    @classmethod
    def find(cls) -> "Nvcc | None":
        """The toolkit's nvcc, else the one on PATH."""
        candidates = [str(folder / "bin" / "nvcc") for folder in toolkit_folders()]
        for candidate in [*candidates, "nvcc"]:
            found = shutil.which(candidate)
            if found:
                return cls(Path(found))
        return None

    @property
    def origin(self) -> str:
        """Path of nvcc."""
        return str(self.path)

    @cached_property
    def version(self) -> str:
        """Name and release, such as "nvcc 13.0.88"."""
        text = self._call(["--version"]).stdout
        release = re.search(r"\bV(\d+(?:\.\d+)+)", text)
        if release is None:
            raise CompilerError(f"{self.path} --version prints no release")
        return f"nvcc {release[1]}"

    @cached_property
    def targets(self) -> frozenset[str]:
        """Architectures listed in its help text (CUDA 10.2 does not have --list-gpu-code)."""
        return frozenset(re.findall(r"\bsm_\d+[a-z]?\b", self._call(["--help"]).stdout))

    def run(self, path: Path, options: list[str]) -> tuple[bytes, str]:
        """Compile a file to a cubin. Raises CompilerError with the first error of the log."""
        with tempfile.TemporaryDirectory(prefix="edgemeta-nvcc-") as folder:
            cubin = Path(folder) / "kernel.cubin"
            done = self._call(["--cubin", *options, f"--output-file={cubin}", str(path)])
            text = done.stdout + done.stderr
            if done.returncode != 0 or not cubin.is_file():
                raise CompilerError(f"{path.parent.name}/{path.name}: {self.version} failed: {first_error(text)}")
            return cubin.read_bytes(), text

    def _call(self, arguments: list[str]) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run([str(self.path), *arguments], capture_output=True, text=True, timeout=_DEADLINE)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompilerError(f"{self.path} could not be run: {error}") from error
