"""The common interface of nvcc and NVRTC: an input file and options in, a cubin and a log out."""

from pathlib import Path
from typing import Protocol

from edgemeta.model.errors import EdgemetaError


class CompilerError(EdgemetaError):
    """There is no suitable compiler, or a kernel does not compile; one sentence."""


class Tool(Protocol):
    """An installed compiler."""

    @property
    def version(self) -> str:
        """Name and release, such as "nvcc 13.0.88"."""
        ...

    @property
    def origin(self) -> str:
        """Where it was found, for logs and errors."""
        ...

    @property
    def targets(self) -> frozenset[str]:
        """Architectures that it can target, such as "sm_53"."""
        ...

    def run(self, path: Path, options: list[str]) -> tuple[bytes, str]:
        """Compile a file: the cubin and the log. Raises CompilerError with the first error of the log."""
        ...


def first_error(log: str) -> str:
    """The first error line of a compiler's log."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line or "fatal" in line), lines[-1] if lines else "no log")
