"""Runs models on an FPGA's netlist, simulated clock by clock by Verilator.

Options: `transport` (simulated; default simulated): where the netlist runs; `cycles` (1 .. 10**9, default 21,000 or
what the network needs at least): clocks per image that the engines are folded for; `timeout` (1 .. 3600, default 60):
seconds for a batch, after which the device counts as hung; `cache`: folder of compiled simulations.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from edgemeta.kernels.fpga.generate.foldings import choose_foldings
from edgemeta.kernels.fpga.generate.network import FpgaError
from edgemeta.kernels.fpga.generate.supported import unsupported
from edgemeta.kernels.fpga.simulate.cache import simulation_library
from edgemeta.kernels.fpga.simulate.model import Simulation, missing_tools
from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, TensorType
from edgemeta.plugins.api import BackendError, OptionError, Probe, Session
from edgemeta.plugins.fpga.session import NAME, FpgaSession, check_device
from edgemeta.plugins.options import choice, reject_unknown, whole_number


class FpgaBackend:
    """As `Backend`; the module's docstring lists the options."""

    name = NAME

    def probe(self) -> Probe:
        """Available with Verilator and a C++ compiler; never chosen by `auto`, since a simulation is slow."""
        missing = missing_tools()
        if missing is not None:
            return Probe(False, f"transport simulated: {missing}")
        return Probe(True, "transport simulated: Verilator model, slow")

    def supports(self, layer: Layer, inputs: Sequence[TensorType]) -> str | None:
        """As `Backend.supports`: the layers that have an engine."""
        return unsupported(layer, inputs)

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        """As `Backend.compile`. The first one of a model compiles its simulation, which takes minutes."""
        reject_unknown(NAME, options, ("transport", "cycles", "timeout", "cache"))
        choice(NAME, options, "transport", "simulated", ("simulated",))
        cycles = whole_number(NAME, options, "cycles", 0, 1, 10**9) if "cycles" in options else None
        timeout = whole_number(NAME, options, "timeout", 60, 1, 3600)
        folder = _folder(options)
        try:
            network = choose_foldings(model, cycles)
            simulation = Simulation(network, simulation_library(network, folder))
        except FpgaError as error:
            raise BackendError(f"backend {NAME}: {error}") from error
        try:
            check_device(simulation, model)
        except BackendError:
            simulation.close()
            raise
        return FpgaSession(model, simulation, timeout)


def _folder(options: Mapping[str, object]) -> Path | None:
    value = options.get("cache")
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise OptionError(f"backend {NAME}: option cache is {value!r}, expected the path of a folder")
    return Path(value).expanduser()


BACKEND = FpgaBackend()
