"""What nvcc and NVRTC have in common for us: an input file, options, a cubin and a log."""

from pathlib import Path
from typing import Protocol

from edgemeta.model.errors import EdgemetaError


class CompilerError(EdgemetaError):
    """No compiler, or one that cannot do what was asked, or a kernel that does not compile; one sentence."""


class Tool(Protocol):
    """A compiler as installed."""

    @property
    def version(self) -> str:
        """Name and release, such as "nvcc 13.0.88"."""
        ...

    @property
    def origin(self) -> str:
        """Where it was found, in words."""
        ...

    @property
    def targets(self) -> frozenset[str]:
        """Architectures that it makes code for, such as "sm_53"."""
        ...

    def run(self, path: Path, options: list[str]) -> tuple[bytes, str]:
        """Compile a file: the cubin and the log. Raises CompilerError with the first error of the log."""
        ...


def first_error(log: str) -> str:
    """The line of a compiler's log that says what is wrong."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line or "fatal" in line), lines[-1] if lines else "no log")
