"""What runs the demo's model: a backend by name; for `fpga` a board that Verilator simulates, at a serial line."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import click

from edgemeta.cli.demo.service import DemoError
from edgemeta.kernels.fpga.generate.foldings import choose_foldings
from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.kernels.fpga.simulate.board import SimulatedBoard
from edgemeta.model.graph import Model

FPGA = "fpga"
FPGA_MODEL = "resnet8-cifar10-pot5"
"""The shipped network without a multiplier."""

_TIMEOUT_S = 600
"""Of a batch: a simulation is slow, and slower still beside other programs."""


@contextmanager
def backend_of_demo(name: str | None, model: Model) -> Iterator[Mapping[str, object]]:
    """The config's keys of the backend, while the block lasts. Raises DemoError if a board cannot be simulated."""
    if name != FPGA:
        yield {} if name is None else {"backend": {"name": name}}
        return
    try:
        network = choose_foldings(model)
        click.echo("edgemeta: no board: Verilator simulates one; compiling it takes minutes the first time", err=True)
        board = SimulatedBoard(network)
    except FpgaError as error:
        raise DemoError(f"no board can be simulated: {error}") from error
    with board:
        click.echo(f"edgemeta: the simulated board's serial line is {board.port}", err=True)
        options = {"transport": "serial", "port": board.port, "timeout": _TIMEOUT_S}
        yield {"backend": {"name": name, "fallback": "refuse", "options": options}}
