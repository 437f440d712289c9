"""Compiled simulations, kept by their sources: a network is compiled once."""

import fcntl
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

from edgemeta.kernels.fpga.generate.cache_folder import default_folder
from edgemeta.kernels.fpga.generate.network import Network
from edgemeta.kernels.fpga.generate.verilog import accelerator_source, memory_files, network_source, rtl_sources
from edgemeta.kernels.fpga.simulate.model import compile_model

_DONE = "done"


def simulation_library(network: Network, folder: Path | None = None) -> Path:
    """The network's library, compiled at the first call, which takes a minute or more. Raises FpgaError."""
    place = (folder or default_folder()) / f"simulation-{_key(network)}"
    place.mkdir(parents=True, exist_ok=True)
    library = place / "simulation.so"
    with _locked(place):
        if not (place / _DONE).is_file():
            compile_model(network, place)
            (place / _DONE).touch()
    return library


def _key(network: Network) -> str:
    driver = (resources.files("edgemeta.kernels.fpga") / "simulate" / "driver.cc").read_text("utf-8")
    parts = [rtl_sources(), network_source(network), accelerator_source(network), memory_files(network), driver]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process compiles, others wait for it."""
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
