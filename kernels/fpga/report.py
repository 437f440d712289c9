"""What a network costs as a netlist: cells of every engine from Yosys, clocks per image from simulation."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from edgemeta.kernels.fpga.generate.foldings import predicted_lut
from edgemeta.kernels.fpga.generate.network import FpgaError, Network
from edgemeta.kernels.fpga.simulate.model import Simulation, missing_tools, simulation_library
from edgemeta.kernels.fpga.synthesize import yosys
from edgemeta.kernels.fpga.synthesize.yosys import Cells
from edgemeta.model import reference
from edgemeta.model.callbacks import Progress

_IMAGES = 4


@dataclass(frozen=True)
class LayerCells:
    """An engine: the layers that it computes, its cells, the LUTs predicted, and its clocks per image."""

    layers: Sequence[str]
    cells: Cells
    predicted: int
    steps: int


@dataclass(frozen=True)
class FpgaReport:
    """Of a network. cycles: clocks from image to image; latency: from an image's first word to its last logit.

    streams: forks and FIFOs between the engines. ports: registers and AXI ports around them.
    """

    model: str
    layers: Sequence[LayerCells]
    streams: Cells
    ports: Cells
    cycles: int
    latency: int

    @property
    def total(self) -> Cells:
        """Of the whole accelerator."""
        return sum((layer.cells for layer in self.layers), self.streams + self.ports)

    def as_json(self) -> dict[str, object]:
        """For scripts."""
        whole = self.total
        return {
            "model": self.model,
            "lut": whole.lut,
            "ff": whole.ff,
            "dsp": whole.dsp,
            "bram36": whole.bram36,
            "cycles": self.cycles,
            "latency": self.latency,
            "streams": asdict(self.streams),
            "ports": asdict(self.ports),
            "layers": [
                {
                    "layers": list(layer.layers),
                    "lut": layer.cells.lut,
                    "ff": layer.cells.ff,
                    "dsp": layer.cells.dsp,
                    "bram36": layer.cells.bram36,
                    "predicted_lut": layer.predicted,
                    "cycles": layer.steps,
                }
                for layer in self.layers
            ],
        }

    def lines(self, frames: float) -> list[str]:
        """For people. frames: images per second whose frequency is named."""
        head = f"{'layers':24} {'LUT':>7} {'FF':>7} {'DSP':>4} {'BRAM36':>7} {'cycles':>8}"
        rows = [_row(", ".join(each.layers), each.cells, each.steps) for each in self.layers]
        rows.append(_row("streams between", self.streams, None))
        rows.append(_row("registers, AXI ports", self.ports, None))
        rows.append(_row("whole", self.total, self.cycles))
        return [
            f"{self.model}, by Yosys for Xilinx 7 series",
            head,
            *rows,
            f"latency of one image: {self.latency} cycles",
            f"{frames:g} images per second need {self.cycles * frames / 1e6:.3f} MHz; "
            "whether a device reaches a frequency only place and route can tell",
        ]


def fpga_report(network: Network, folder: Path | None = None, progress: Progress | None = None) -> FpgaReport:
    """Synthesize and simulate, side by side; both are kept in the cache. progress: of the parts that are synthesized.

    Raises FpgaError, also if a logit is wrong.
    """
    if missing := yosys.missing_yosys() or missing_tools():
        raise FpgaError(missing)
    streams = [part for depth in network.fifos.values() for part in yosys.residual_parts(depth)]
    parts = [*map(yosys.engine_part, network.engines), *streams, yosys.port_part(network)]
    with ThreadPoolExecutor(1) as beside:
        clocks = beside.submit(_clocks, network, folder)
        cells = yosys.count_cells(parts, folder, progress)
        cycles, latency = clocks.result()
    rows = [
        LayerCells(engine.layers, each, predicted_lut(engine), engine.steps)
        for engine, each in zip(network.engines, cells, strict=False)
    ]
    return FpgaReport(network.model.name, rows, sum(cells[len(rows) : -1], Cells()), cells[-1], cycles, latency)


def _clocks(network: Network, folder: Path | None) -> tuple[int, int]:
    kind = network.model.input
    images = np.random.default_rng(0).integers(kind.lo, kind.hi + 1, (_IMAGES, *kind.shape)).astype(kind.dtype)
    simulation = Simulation(network, simulation_library(network, folder))
    try:
        logits, clocks = simulation.timed(images)
    finally:
        simulation.close()
    if (logits != reference.run(network.model, images)[0]).any():
        raise FpgaError("the simulated netlist differs from the reference")
    return int(clocks[-1] - clocks[-2]), int(clocks[0])


def _row(name: str, cells: Cells, steps: int | None) -> str:
    last = "" if steps is None else str(steps)
    return f"{name[:24]:24} {cells.lut:7} {cells.ff:7} {cells.dsp:4} {cells.bram36:7g} {last:>8}"
