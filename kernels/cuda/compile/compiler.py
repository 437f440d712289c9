"""Compiles variants of kernel sources to cubins; finds the compilers of this machine.

Search order: libnvrtc of a CUDA toolkit (11.2 or newer, which can produce cubins), the toolkit's nvcc (the only one in
JetPack 4.6, CUDA 10.2), the `nvidia-cuda-nvrtc-cu12` wheel. The toolkit is first because its cubins fit the driver that
it was installed with; its libnvrtc precedes its nvcc because it needs no host compiler.
"""

import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from edgemeta.kernels.cuda.compile.nvcc import Nvcc
from edgemeta.kernels.cuda.compile.nvrtc import Nvrtc, toolkit_libraries, wheel_library
from edgemeta.kernels.cuda.compile.resources import Resources, parse_resources
from edgemeta.kernels.cuda.compile.tool import CompilerError as CompilerError
from edgemeta.kernels.cuda.compile.tool import Tool
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source

SOURCES = Path(__file__).resolve().parent.parent
"""The base folder of `Source.path` and of the includes of kernels."""

EXTRA = "edgemeta[cuda-compiler]"

log = logging.getLogger(__name__)


class CubinMaker(Protocol):
    """The interface of a compiler that the cache uses."""

    @property
    def version(self) -> str:
        """Its name and release: equal versions produce equal cubins."""
        ...

    def compile(self, source: Source, architecture: Architecture) -> bytes:
        """A cubin of one variant. Raises CompilerError."""
        ...


@dataclass(frozen=True)
class Build:
    """A cubin and the resources that its kernel uses."""

    cubin: bytes
    resources: Resources


@dataclass(frozen=True)
class Compiler:
    """A compiler of this machine, used for one kernel variant at a time."""

    tool: Tool

    @property
    def version(self) -> str:
        """Name and release, such as "nvrtc 12.9" or "nvcc 10.2.300"."""
        return self.tool.version

    def __str__(self) -> str:
        return f"{self.tool.version} ({self.tool.origin})"

    def supports(self, architecture: Architecture) -> bool:
        """Whether it can target this GPU generation."""
        return architecture.name in self.tool.targets

    def compile(self, source: Source, architecture: Architecture) -> bytes:
        """A cubin of one variant. Raises CompilerError with the first error of the compiler's log."""
        return self.build(source, architecture).cubin

    def build(self, source: Source, architecture: Architecture) -> Build:
        """A cubin and the registers, shared memory and spills that ptxas reports. Raises CompilerError."""
        if not self.supports(architecture):
            raise CompilerError(f"{self} cannot target {architecture.name}: it supports {_range(self.tool)}")
        with source_file(source) as path:
            cubin, text = self.tool.run(path, options(source, architecture))
        return Build(cubin, parse_resources(text, source.entry))


@contextmanager
def source_file(source: Source) -> Iterator[Path]:
    """The file of a source; a generated text is in a temporary one."""
    if not source.text:
        yield SOURCES / source.path
        return
    with tempfile.TemporaryDirectory(prefix="edgemeta-source-") as folder:
        path = Path(folder) / source.path
        path.parent.mkdir(parents=True)
        path.write_text(source.text, "utf-8")
        yield path


def options(source: Source, architecture: Architecture) -> list[str]:
    """Options for both nvcc and NVRTC: C++14, the shapes as definitions, and a resource report by ptxas."""
    return [
        f"--gpu-architecture={architecture.name}",
        "--std=c++14",
        "--ptxas-options=-v",
        f"--include-path={SOURCES}",
        *(f"--define-macro={name}={value}" for name, value in source.defines),
    ]


def compilers() -> Iterator[Compiler]:
    """All compilers of this machine, best first; compiles nothing."""
    for library in toolkit_libraries():
        yield Compiler(Nvrtc(library, str(library)))
    nvcc = Nvcc.find()
    if nvcc is not None:
        yield Compiler(nvcc)
    if wheel_library() is not None:
        yield wheel_compiler()


def wheel_compiler() -> Compiler:
    """The wheel's compiler, which is the same on every machine, so figures are comparable. Raises CompilerError."""
    library = wheel_library()
    if library is None:
        raise CompilerError(f"the wheel nvidia-cuda-nvrtc-cu12 is not installed: pip install '{EXTRA}'")
    return Compiler(Nvrtc(library, "the nvidia-cuda-nvrtc-cu12 wheel"))


def find_compiler(architecture: Architecture | None = None) -> Compiler:
    """The first compiler that can target an architecture (None: any); logs the choice. Raises CompilerError."""
    found = []
    for compiler in compilers():
        if architecture is None or compiler.supports(architecture):
            log.info("CUDA kernels%s are compiled by %s", f" for {architecture.name}" if architecture else "", compiler)
            return compiler
        found.append(f"{compiler} supports only {_range(compiler.tool)}")
    wanted = f" for {architecture.name}" if architecture else ""
    nothing = "neither nvcc nor libnvrtc (11.2 or newer) is on PATH, in CUDA_HOME or in /usr/local/cuda"
    reason = "; ".join(found) or nothing
    raise CompilerError(f"no CUDA compiler{wanted}: {reason}; pip install '{EXTRA}' installs one")


def _range(tool: Tool) -> str:
    """Oldest and newest target; targets with a letter such as sm_90a are ignored."""
    numbers = sorted(int(name[3:]) for name in tool.targets if name[3:].isdigit())
    return f"sm_{numbers[0]} to sm_{numbers[-1]}" if numbers else "no architecture"
