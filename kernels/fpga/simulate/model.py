"""A generated network as a Verilator model: compiled to a shared library, run through ctypes."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from ctypes import CDLL, POINTER, c_int32, c_uint8, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.cache_folder import default_folder
from edgemeta.kernels.fpga.generate.network import FpgaError, Network
from edgemeta.kernels.fpga.generate.registers import CONTROL, load_writes
from edgemeta.kernels.fpga.generate.verilog import accelerator_source, memory_files, network_source, rtl_sources

_LIBRARY = "simulation.so"
_FLAGS = ("--cc", "-O3", "-sv", "-Wno-fatal", "-Wno-WIDTH", "-Wno-lint", "--x-assign", "0", "--x-initial", "0")
_RUNTIME = ("verilated", "verilated_threads")
"""Verilator's own C++ sources; the second one only in versions that have it."""
_MARGIN = 4
"""Times the longest expected run, after which a simulation counts as hung."""

_DONE = "done"


def missing_tools() -> str | None:
    """What the simulation lacks on this machine, or None."""
    for tool in ("verilator", "g++", "make"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (Debian packages verilator, g++, make)"
    return None


@dataclass(frozen=True)
class Top:
    """The module that is simulated: its file, how to write that for a network, and the C interface to it."""

    module: str
    file: str
    driver: str
    source: Callable[[Network], str]

    def texts(self, network: Network, memories: str) -> dict[str, str]:
        """Verilog sources by name; memories are read from the folder `memories`."""
        return {**rtl_sources(), "network.sv": network_source(network, memories), self.file: self.source(network)}

    def driver_text(self) -> str:
        """The C++ source of the interface."""
        return (resources.files("edgemeta.kernels.fpga") / "simulate" / self.driver).read_text("utf-8")


ACCELERATOR = Top("edgemeta_accelerator", "accelerator.sv", "driver.cc", accelerator_source)


def compile_model(network: Network, folder: Path, level: int = 1, top: Top = ACCELERATOR) -> Path:
    """Write the sources into `folder` and compile them there; returns the library. Raises FpgaError.

    level: of the compiler's optimization, 0 to 3: how much longer it takes for a faster simulation; 0 for what runs
    once.
    """
    missing = missing_tools()
    if missing is not None:
        raise FpgaError(missing)
    memories = folder / "memories"
    memories.mkdir(parents=True, exist_ok=True)
    for name, text in memory_files(network).items():
        (memories / name).write_text(text, "ascii")
    sources = top.texts(network, str(memories.resolve()))
    for name, text in sources.items():
        (folder / name).write_text(text, "utf-8")
    driver = folder / "driver.cc"
    driver.write_text(top.driver_text(), "utf-8")
    objects = folder / "objects"
    _run(["verilator", *_FLAGS, "--top-module", top.module, "--Mdir", str(objects), *sorted(sources)], folder)
    include = _verilator_root() / "include"
    library = folder / _LIBRARY
    generated = sorted(objects.glob("*.cpp"), key=lambda file: -file.stat().st_size)  # the longest begin first
    runtime = [each for name in _RUNTIME if (each := include / f"{name}.cpp").is_file()]
    levels = {each: 0 if each.stem.endswith("__Slow") else level for each in generated}
    levels |= dict.fromkeys([*runtime, driver], 0)
    compiler = ["g++", "-std=c++17", "-fPIC", "-w", "-pthread", f"-I{objects}", f"-I{include}", f"-I{include}/vltstd"]

    def compiled(source: Path) -> str:
        _run([*compiler, f"-O{levels[source]}", "-c", str(source)], objects)
        return f"{source.stem}.o"

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        parts = list(pool.map(compiled, levels))
    _run([*compiler, "-shared", "-o", str(library), *parts], objects)
    shutil.rmtree(objects)
    return library


class Simulation:
    """A compiled model, clock by clock. Memories are read from the folder that it was compiled in."""

    def __init__(self, network: Network, library: Path) -> None:
        self._network = network
        self._lib = _bind(CDLL(str(library)))
        self._in_words = int(np.prod(network.model.input.shape))
        self._kind = network.model.output_types[0]
        self._limit = _MARGIN * (sum(engine.steps for engine in network.engines) + 10_000)
        self._handle: int | None = self._lib.edgemeta_open(self._in_words)

    @property
    def cycles(self) -> int:
        """Clocks since the start, of all that was done."""
        return int(self._lib.edgemeta_cycles(self._handle))

    def run(
        self,
        batch: NDArray[Any],
        stall: int = 0,
        seed: int = 1,
        limit: int | None = None,
        deadline: float | None = None,
    ) -> NDArray[Any]:
        """Outputs [N, H, W, C] of a batch [N, H, W, C]. stall: of 256, how often either side pauses for a clock.

        limit: clocks after which it counts as hung, for all images; deadline: the same by `time.monotonic`. Raises
        FpgaError then.
        """
        return self.timed(batch, stall, seed, limit, deadline)[0]

    def timed(
        self,
        batch: NDArray[Any],
        stall: int = 0,
        seed: int = 1,
        limit: int | None = None,
        deadline: float | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.uint64]]:
        """As `run`, and the clock at which the last word of each image left, from the first offered word on."""
        images = len(batch)
        words = int(np.prod(self._kind.shape))
        source = np.ascontiguousarray(batch).view(np.uint8)
        out = np.zeros(images * words, np.int32)
        clocks = np.zeros(images * words, np.uint64)
        done = np.zeros(2, np.uint64)
        most = limit or (images + 1) * self._limit * (1 if stall == 0 else 256 // max(1, 256 - stall) + 1)
        left = 0 if deadline is None else max(1, int((deadline - time.monotonic()) * 1000))
        taken = self._lib.edgemeta_stream(
            self._handle, _at(source, c_uint8), source.size, _at(out, c_int32), out.size,
            stall, seed, most, left, _at(done, c_uint64), _at(clocks, c_uint64),
        )  # fmt: skip
        if int(done[1]) != out.size:
            raise FpgaError(f"the simulated network hangs: {int(done[1])} of {out.size} words after {taken} clocks")
        return out.astype(self._kind.dtype).reshape(images, *self._kind.shape), clocks[words - 1 :: words]

    def offer(self, data: bytes, clocks: int) -> int:
        """Offer bytes for so many clocks without taking any output; how many were taken."""
        source = np.frombuffer(data, np.uint8)
        out, done = np.zeros(1, np.int32), np.zeros(2, np.uint64)
        self._lib.edgemeta_stream(
            self._handle, _at(source, c_uint8), source.size, _at(out, c_int32), 0,
            0, 1, clocks, 0, _at(done, c_uint64), None,
        )  # fmt: skip
        return int(done[0])

    def read(self, address: int) -> int:
        """A register."""
        return int(self._lib.edgemeta_read(self._handle, address))

    def write(self, address: int, value: int) -> None:
        """Write a register."""
        self._lib.edgemeta_write(self._handle, address, value)

    def load(self, other: Network) -> None:
        """Put the weights, tables and start values of another network into the memories. Raises FpgaError."""
        for address, value in load_writes(self._network, other):
            self.write(address, value)
        self.write(CONTROL, 1)

    def close(self) -> None:
        """Free the model; a second call does nothing."""
        if self._handle is not None:
            self._lib.edgemeta_close(self._handle)
            self._handle = None


def _at(array: NDArray[Any], kind: type[Any]) -> Any:
    return array.ctypes.data_as(POINTER(kind))


def _bind(library: Any) -> Any:
    stream = [c_void_p, POINTER(c_uint8), c_uint64, POINTER(c_int32), c_uint64]
    stream += [c_uint32, c_uint64, c_uint64, c_uint64, POINTER(c_uint64), POINTER(c_uint64)]
    signatures = {
        "open": ([c_uint64], c_void_p),
        "close": ([c_void_p], None),
        "cycles": ([c_void_p], c_uint64),
        "stream": (stream, c_uint64),
        "read": ([c_void_p, c_uint32], c_uint32),
        "write": ([c_void_p, c_uint32, c_uint32], None),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, f"edgemeta_{name}")
        function.argtypes, function.restype = arguments, result
    return library


def _verilator_root() -> Path:
    found = subprocess.run(["verilator", "--getenv", "VERILATOR_ROOT"], capture_output=True, text=True, check=False)
    return Path(found.stdout.strip())


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if "rror" in line] or ["no message"]
        raise FpgaError(f"{command[0]} failed: {lines[0]}")


def simulation_library(network: Network, folder: Path | None = None, top: Top = ACCELERATOR) -> Path:
    """The network's library, compiled at the first call, which takes a minute or more. Raises FpgaError."""
    place = (folder or default_folder()) / f"simulation-{_key(network, top)}"
    place.mkdir(parents=True, exist_ok=True)
    library = place / "simulation.so"
    with _locked(place):
        if not (place / _DONE).is_file():
            compile_model(network, place, top=top)
            (place / _DONE).touch()
    return library


def _key(network: Network, top: Top) -> str:
    parts = [top.module, top.texts(network, "memories"), memory_files(network), top.driver_text()]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process compiles, others wait for it."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
