"""ARM processors that qemu emulates, and the C++ library built for them."""

import fcntl
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rig.arm.library import EmulatedLibrary

REPOSITORY = Path(__file__).resolve().parent.parent.parent


class MissingToolError(Exception):
    """A compiler or the emulator is not installed; the sentence names the Debian package."""


@dataclass(frozen=True)
class Architecture:
    """What a build needs: the file of packaging/ for CMake, the cross compiler's prefix, the emulator."""

    name: str
    target: str
    emulator: str

    @property
    def folder(self) -> Path:
        """Where the library and its runner are built."""
        return REPOSITORY / "build" / "emulated" / self.name


@dataclass(frozen=True)
class Machine:
    """A processor by qemu's name, and the instruction set that the library must find on it."""

    processor: str
    architecture: Architecture
    isa: str

    def command(self, *options: str) -> list[str]:
        """The command of the runner, with options of qemu; builds it. Raises MissingToolError."""
        runner = build(self.architecture)
        root = f"/usr/{self.architecture.target}"
        return [self.architecture.emulator, "-L", root, "-cpu", emulated(self.processor), *options, str(runner)]

    def start(self) -> EmulatedLibrary:
        """The library on this machine. Raises MissingToolError."""
        return EmulatedLibrary(self.command())


def emulated(processor: str) -> str:
    """The processor of qemu's with the same instructions, with its options: qemu 7 has no Cortex-A55."""
    return {"cortex-a55": "cortex-a76", "max-without-sme": "max,sme=off"}.get(processor, processor)


AARCH64 = Architecture("aarch64", "aarch64-linux-gnu", "qemu-aarch64")
ARMV7 = Architecture("armv7", "arm-linux-gnueabihf", "qemu-arm")
MACHINES = (
    Machine("cortex-a57", AARCH64, "neon"),
    Machine("cortex-a76", AARCH64, "dotprod"),
    Machine("max", AARCH64, "i8mm"),
    Machine("cortex-a7", ARMV7, "neon"),
)
OTHER_MACHINES = (
    Machine("cortex-a53", AARCH64, "neon"),
    Machine("cortex-a72", AARCH64, "neon"),
    Machine("cortex-a55", AARCH64, "dotprod"),
    Machine("max-without-sme", AARCH64, "i8mm"),
)
"""Instruction sets of MACHINES on other cores, for which other libraries have loops of their own.

Most cores with i8mm have no matrix unit (SME); qemu's `max` has one.
"""


def require(tools: Mapping[str, str], what: str) -> None:
    """Raise MissingToolError with the Debian packages of the programs that are not installed."""
    missing = [package for tool, package in tools.items() if shutil.which(tool) is None]
    if missing:
        raise MissingToolError(f"no {what} (Debian packages {', '.join(missing)})")


def build(architecture: Architecture) -> Path:
    """Build the library and the runner, what changed only; returns the runner's path. Raises MissingToolError."""
    compiler = f"{architecture.target}-g++"
    tools = {architecture.emulator: "qemu-user", compiler: f"g++-{architecture.target}", "cmake": "cmake"}
    require(tools, f"emulated {architecture.name}")
    folder = architecture.folder
    folder.mkdir(parents=True, exist_ok=True)
    library, runner = folder / "kernels/cpu/libedgemeta_cpu.so", folder / "runner"
    sources = [Path(__file__).with_name("runner.cpp"), REPOSITORY / "kernels/cpu/src/edgemeta_cpu.h"]
    with (folder / "lock").open("w") as lock:  # one process builds, the others wait for it
        fcntl.flock(lock, fcntl.LOCK_EX)
        toolchain = REPOSITORY / "packaging" / f"{architecture.name}.cmake"
        configure = ["cmake", "-S", str(REPOSITORY), "-B", str(folder), "-DCMAKE_BUILD_TYPE=Release"]
        _run(*configure, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}")
        _run("cmake", "--build", str(folder), "--parallel", "2", "--target", "edgemeta_cpu", "edgemeta_simulate")
        if not runner.exists() or runner.stat().st_mtime < max(source.stat().st_mtime for source in sources):
            link = [str(library), f"-Wl,-rpath,{library.parent}", "-o", str(runner)]
            _run(compiler, "-std=c++17", "-O1", str(sources[0]), *link)
    return runner


def _run(*command: str) -> None:
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stdout[-4000:]}")
