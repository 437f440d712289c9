"""From a variant of a kernel's source to a host module: g++ reads the same .cu file as nvcc does.

A mode says what the module is good for. `quick` compiles in a tenth of a second, `fast` is for whole data sets.
`checked` watches every access to memory: races in any thread order, reads of shared memory that nobody wrote, addresses
out of bounds or misaligned, undefined behaviour. `address` is for AddressSanitizer; the process that loads it must have
libasan and libubsan preloaded. `debug` is `quick` with all that a debugger wants to know.
"""

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from edgemeta.kernels.cuda.compile.cache import default_folder
from edgemeta.kernels.cuda.compile.compiler import SOURCES
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source
from tests.emulation.gcc import digest, gcc_version, link, run_gcc

RUNTIME = Path(__file__).resolve().parent / "runtime"
"""The C++ sources of the emulation itself."""

STORE = default_folder() / "emulation"
"""Cache of compiled parts and modules: the user's cache, regardless of folders that tests set later."""

# A negative number shifted left is plain in CUDA.
_UNDEFINED = ("-fno-sanitize=shift-base", "-fno-sanitize-recover=undefined", "-ftrivial-auto-var-init=pattern")
_COMMON = ("-fPIC", "-fvisibility=hidden", "-fno-gnu-unique", "-g1", "-gdwarf-4")


@dataclass(frozen=True)
class Mode:
    """kernel, machine: options for the kernel's source and for the emulation. parts: sources linked to it."""

    kernel: tuple[str, ...]
    machine: tuple[str, ...]
    parts: tuple[str, ...]


MODES = {
    "debug": Mode(("-O0", "-g3"), ("-O1", "-g3"), ("machine.cpp", "unchecked.cpp")),
    "quick": Mode(("-O0",), ("-O2",), ("machine.cpp", "unchecked.cpp")),
    "fast": Mode(("-O2",), ("-O2",), ("machine.cpp", "unchecked.cpp")),
    "checked": Mode(
        ("-O1", "-fsanitize=thread,undefined", "--param=tsan-instrument-func-entry-exit=0", *_UNDEFINED),
        ("-O2",),
        ("machine.cpp", "checks.cpp"),
    ),
    "address": Mode(
        ("-O1", "-fsanitize=address,undefined", "-fsanitize-sections=emulation_shared", *_UNDEFINED),
        ("-O1", "-fsanitize=address"),
        ("machine.cpp", "unchecked.cpp"),
    ),
}


@dataclass(frozen=True)
class EmulationCompiler:
    """Makes host modules: ELF shared objects that export `emulation_launch` and `emulation_kernel_<entry>`.

    mode: a key of MODES. sources: the folder that `Source.path` and includes are relative to.
    """

    mode: str = "fast"
    sources: Path = SOURCES

    @property
    def version(self) -> str:
        """The compiler and all that it adds to the kernel's own text: equal versions make equal modules."""
        return f"{gcc_version()} {self.mode} {_runtime_digest()}"

    def compile(self, source: Source, architecture: Architecture) -> bytes:
        """A module with one kernel. Raises CompilerError with the error of g++."""
        mode = MODES[self.mode]
        text = source.text or f'#include "{self.sources / source.path}"\n'
        text += f'#include "kernel.h"\nEMULATION_KERNEL({source.entry})\n'
        options = [
            *(
                "-std=gnu++14",
                "-fno-exceptions",
                "-fno-strict-aliasing",
                "-Wno-attributes",
                "-Werror=frame-larger-than=65536",
            ),
            *(f"-I{RUNTIME}", f"-I{self.sources}", "-include", "language.h"),
            *("-DEDGEMETA_EMULATION", f"-D__CUDA_ARCH__={architecture.number}"),
            *(f"-D{name}={value}" for name, value in source.defines),
        ]
        machine = _machine(self.mode)
        with tempfile.TemporaryDirectory() as folder:
            unit, kernel, module = (Path(folder) / name for name in ("kernel.cpp", "kernel.o", "module.so"))
            unit.write_text(text)
            run_gcc([*_COMMON, *mode.kernel, *options, "-c", str(unit), "-o", str(kernel)])
            link([kernel, machine], module)
            return module.read_bytes()


@cache
def _machine(name: str) -> Path:
    """The emulation itself as one object file, built unless the store has it."""
    mode = MODES[name]
    wanted = STORE / f"machine-{name}-{gcc_version().replace(' ', '-')}-{_runtime_digest()}.o"
    if wanted.is_file():
        return wanted
    STORE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=STORE) as temporary:
        parts = []
        for part in mode.parts:
            parts.append(str(Path(temporary) / f"{part}.o"))
            run_gcc(
                ["-std=c++17", "-fno-exceptions", *_COMMON, *mode.machine, "-c", str(RUNTIME / part), "-o", parts[-1]]
            )
        whole = Path(temporary) / "machine.o"
        run_gcc(["-r", "-nostdlib", *parts, "-o", str(whole)])
        whole.replace(wanted)
    return wanted


@cache
def _runtime_digest() -> str:
    return digest([*RUNTIME.iterdir(), Path(__file__)])
