"""Runs models as netlists: simulated clock by clock by Verilator, or in programmable logic.

Options: `transport` (simulated, axi, serial; default simulated): where the netlist runs; `timeout` (1 .. 3600, default
60): seconds for a batch, after which the device counts as hung. Of `simulated`: `cycles` (1 .. 10**9, default 21,000 or
what the network needs at least): clocks per image that the engines are folded for; `cache`: folder of simulations.
Of `axi`: `registers` and `dma`, the UIO devices of the accelerator and of its AXI DMA (default uio0, uio1); `source`
and `target`, u-dma-buf buffers for images and logits (default udmabuf0, udmabuf1); `wait` (interrupt, poll; default
interrupt): for the DMA's interrupt, or by looking at its status. Of `serial`: `port` (default /dev/ttyUSB0), the serial
port of a board, and `baud` (default 3,000,000), its rate.
"""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from edgemeta.kernels.fpga.generate.foldings import choose_foldings
from edgemeta.kernels.fpga.generate.network import FpgaError, unsupported
from edgemeta.kernels.fpga.simulate.model import Simulation, missing_tools, simulation_library
from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, TensorType
from edgemeta.plugins.api import BackendError, OptionError, Probe, Session
from edgemeta.plugins.fpga.axi import AxiDevice
from edgemeta.plugins.fpga.serial import SerialDevice
from edgemeta.plugins.fpga.serial_port import BAUDS, SerialPort
from edgemeta.plugins.fpga.session import NAME, Device, FpgaSession, check_device
from edgemeta.plugins.fpga.uio import CLASSES, DEVICES, DmaBuffer, UioDevice
from edgemeta.plugins.options import choice, reject_unknown, whole_number

_OPTIONS = {
    "simulated": ("transport", "timeout", "cycles", "cache"),
    "axi": ("transport", "timeout", "registers", "dma", "source", "target", "wait"),
    "serial": ("transport", "timeout", "port", "baud"),
}


class FpgaBackend:
    """As `Backend`; the module's docstring lists the options.

    devices, classes: where the kernel shows devices, /dev and /sys/class.
    """

    name = NAME

    def __init__(self, devices: Path = DEVICES, classes: Path = CLASSES) -> None:
        self._devices, self._classes = devices, classes

    def probe(self) -> Probe:
        """Available with Verilator and a C++ compiler, UIO devices, or a serial port; never chosen by `auto`."""
        missing = missing_tools()
        ports = sorted(each for pattern in _PORTS for each in self._devices.glob(pattern))
        found = {
            "simulated": missing or "Verilator model, slow",
            "axi": self._missing_device() or "UIO device and DMA buffer found",
            "serial": f"{ports[0]} is there" if ports else f"no {_PORTS[0]} in {self._devices}",
        }
        reason = "; ".join(f"transport {name}: {text}" for name, text in found.items())
        return Probe(missing is None or self._missing_device() is None or bool(ports), reason)

    def supports(self, layer: Layer, inputs: Sequence[TensorType]) -> str | None:
        """As `Backend.supports`: the layers that have an engine."""
        return unsupported(layer, inputs)

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        """As `Backend.compile`. The first simulation of a model is compiled, which takes minutes."""
        transport = choice(NAME, options, "transport", "simulated", tuple(_OPTIONS))
        reject_unknown(NAME, options, _OPTIONS[transport])
        timeout = whole_number(NAME, options, "timeout", 60, 1, 3600)
        if len(model.outputs) != 1:
            raise BackendError(f"backend {NAME}: the model has {len(model.outputs)} outputs, supported is 1")
        try:
            device = self._device(transport, model, options, timeout)
        except FpgaError as error:
            raise BackendError(f"backend {NAME}: {error}") from error
        try:
            check_device(device, model)
            if isinstance(device, AxiDevice):
                device.prepare()
        except FpgaError as error:
            device.close()
            raise BackendError(f"backend {NAME}: {error}") from error
        except BackendError:
            device.close()
            raise
        return FpgaSession(model, device, timeout)

    def _device(self, transport: str, model: Model, options: Mapping[str, object], timeout: int) -> Device:
        if transport == "axi":
            return self._axi(model, options)
        return _serial(model, options, timeout) if transport == "serial" else _simulated(model, options)

    def _missing_device(self) -> str | None:
        for path in (self._devices / "uio0", self._devices / "udmabuf0"):
            if not path.exists():
                return f"{path} is not there"
        return None

    def _axi(self, model: Model, options: Mapping[str, object]) -> Device:
        names = {key: _name(options, key, default) for key, default in _DEFAULT_NAMES.items()}
        waits = choice(NAME, options, "wait", "interrupt", ("interrupt", "poll")) == "interrupt"
        with ExitStack() as opened:
            registers, dma = (self._uio(names[key], opened) for key in ("registers", "dma"))
            source, target = (DmaBuffer(names[key], self._devices, self._classes) for key in ("source", "target"))
            wait = dma.wait if waits else None
            return AxiDevice(model, registers, dma, source, target, wait, opened.pop_all().close)

    def _uio(self, name: str, opened: ExitStack) -> UioDevice:
        device = UioDevice(name, self._devices, self._classes)
        opened.callback(device.close)
        return device


_PORTS = ("ttyUSB*", "ttyACM*", "ttyAMA*")
"""Serial ports behind which a board may be."""

_DEFAULT_NAMES = {"registers": "uio0", "dma": "uio1", "source": "udmabuf0", "target": "udmabuf1"}


def _simulated(model: Model, options: Mapping[str, object]) -> Device:
    cycles = whole_number(NAME, options, "cycles", 0, 1, 10**9) if "cycles" in options else None
    folder = _folder(options)
    network = choose_foldings(model, cycles)
    return Simulation(network, simulation_library(network, folder))


def _serial(model: Model, options: Mapping[str, object], timeout: int) -> Device:
    path = options.get("port", "/dev/ttyUSB0")
    if not isinstance(path, str) or not path:
        raise OptionError(f"backend {NAME}: option port is {path!r}, expected the path of a serial port")
    baud = whole_number(NAME, options, "baud", 3_000_000, 1, 10**8)
    if baud not in BAUDS:
        known = ", ".join(map(str, sorted(BAUDS)[-8:]))
        raise OptionError(f"backend {NAME}: option baud is {baud}, expected a rate of Linux, such as {known}")
    with ExitStack() as opened:
        port = SerialPort(Path(path), baud)
        opened.callback(port.close)
        device = SerialDevice(model, port, timeout)
        opened.pop_all()
        return device


def _name(options: Mapping[str, object], key: str, default: str) -> str:
    value = options.get(key, default)
    if not isinstance(value, str) or not value or "/" in value:
        raise OptionError(
            f"backend {NAME}: option {key} is {value!r}, expected the name of a device, such as {default}"
        )
    return value


def _folder(options: Mapping[str, object]) -> Path | None:
    value = options.get("cache")
    if value is None:
        return None
    if not isinstance(value, str) or not value:
        raise OptionError(f"backend {NAME}: option cache is {value!r}, expected the path of a folder")
    return Path(value).expanduser()


BACKEND = FpgaBackend()
