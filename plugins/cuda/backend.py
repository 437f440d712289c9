"""Runs models on NVIDIA GPUs, from the Jetson Nano (sm_53) on, through PyCUDA.

Options: `device` (0 .. 63, default 0); `cache`: folder of compiled kernels and tuning results; `tiles` (measured, rule;
default measured): choose the tile of each kernel by one measurement on the device, or by rule; `launch`
(measured, graph, kernels, network; default measured; `predicted`, its former name, is the same): replay a run as one
CUDA graph, launch kernel by kernel, join all kernels to one, or what one measurement finds faster: a graph of the
kernels or of the one that they are joined to.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from edgemeta.kernels.cuda.compile.cache import Cubins, default_folder, holds
from edgemeta.kernels.cuda.compile.compiler import CompilerError, CubinMaker, find_compiler
from edgemeta.kernels.cuda.lowering import lower, unsupported
from edgemeta.kernels.cuda.one_launch.plan import one_launch
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.graph import Model
from edgemeta.model.layers import Layer, TensorType
from edgemeta.plugins.api import BackendError, OptionError, Probe, Session
from edgemeta.plugins.cuda.device import DeviceContext, architecture_of, find_device
from edgemeta.plugins.cuda.driver import NAME, UnavailableError, driver_errors, first_line, load
from edgemeta.plugins.cuda.frames import as_it_is
from edgemeta.plugins.cuda.graph import CapturedGraph, DirectLaunches
from edgemeta.plugins.cuda.launch_form import fastest_form
from edgemeta.plugins.cuda.loaded_plan import LoadedPlan
from edgemeta.plugins.cuda.session import CudaSession
from edgemeta.plugins.cuda.tuning import tuned
from edgemeta.plugins.options import choice, reject_unknown, whole_number

_log = logging.getLogger(__name__)

_SCORE = 100
_SEQUENCES: Mapping[str, type[CapturedGraph | DirectLaunches]] = {
    "measured": CapturedGraph,
    "graph": CapturedGraph,
    "kernels": DirectLaunches,
    "network": CapturedGraph,
    "predicted": CapturedGraph,
}


class CudaBackend:
    """As `Backend`; the module's docstring lists the options.

    compiler_for: returns the kernel compiler for an architecture, or raises CompilerError.
    """

    name = NAME

    def __init__(self, compiler_for: Callable[[Architecture], CubinMaker] = find_compiler) -> None:
        self._compiler_for = compiler_for

    def probe(self) -> Probe:
        """Available with PyCUDA, a driver, a supported device, and a compiler or kernels compiled ahead of time."""
        try:
            cuda = load()
            device = find_device(cuda, 0)
            name, architecture = device.name(), architecture_of(device)
        except UnavailableError as error:
            return Probe(False, str(error))
        except cuda.Error as error:
            return Probe(False, f"the NVIDIA driver failed: {first_line(error)}")
        try:
            made_by = str(self._compiler_for(architecture))
        except CompilerError as error:
            if not holds(default_folder(), architecture):
                return Probe(False, f"{name} ({architecture.name}) was found, but {error}")
            made_by = "kernels compiled ahead of time"
        return Probe(True, f"{name} ({architecture.name}), {made_by}", _SCORE)

    def supports(self, layer: Layer, inputs: Sequence[TensorType]) -> str | None:
        """As `Backend.supports`: the layers that have a kernel."""
        return unsupported(layer, inputs)

    def compile(self, model: Model, options: Mapping[str, object]) -> Session:
        """As `Backend.compile`."""
        reject_unknown(NAME, options, ("device", "cache", "tiles", "launch"))
        number = whole_number(NAME, options, "device", 0, 0, 63)
        folder = _folder(options)
        tiles = choice(NAME, options, "tiles", "measured", ("measured", "rule"))
        launch = choice(NAME, options, "launch", "measured", _SEQUENCES)
        try:
            device = DeviceContext(number)
            try:
                cubins = Cubins(folder, self._compiler_or_none(device.architecture))
                plan = _plan(model, device, cubins, measured=tiles == "measured")
                form = partial(one_launch, multiprocessors=device.multiprocessors) if launch == "network" else as_it_is
                if launch in ("measured", "predicted"):
                    plan = fastest_form(plan, device, cubins, compiles=tiles == "measured")
                return CudaSession(model, device, _load(form(plan), device, cubins, _SEQUENCES[launch]), form)
            except BaseException:
                device.close()
                raise
        except UnavailableError as error:
            raise OptionError(f"backend {NAME}: {error}") from error  # no such `device`, or one too old
        except (UnsupportedError, CompilerError) as error:
            raise BackendError(f"backend {NAME}: {error}") from error

    def _compiler_or_none(self, architecture: Architecture) -> CubinMaker | None:
        try:
            return self._compiler_for(architecture)
        except CompilerError:
            return None


def _plan(model: Model, device: DeviceContext, cubins: Cubins, *, measured: bool) -> LaunchPlan:
    if measured and cubins.compiler is not None:
        return tuned(model, device, cubins, cubins.folder)
    if measured:
        _log.info("tiles are chosen by rule: no CUDA compiler, only kernels compiled ahead of time are available")
    return lower(model, device.architecture)


def _load(
    plan: LaunchPlan, device: DeviceContext, cubins: Cubins, sequence: type[CapturedGraph | DirectLaunches]
) -> LoadedPlan:
    with driver_errors(device.cuda, f"loading {len(plan.sources)} kernels"), device:
        return LoadedPlan(device, plan, cubins, sequence)


def _folder(options: Mapping[str, object]) -> Path:
    value = options.get("cache")
    if value is None:
        return default_folder()
    if not isinstance(value, str) or not value:
        raise OptionError(f"backend {NAME}: option cache is {value!r}, expected the path of a folder")
    return Path(value).expanduser()


BACKEND = CudaBackend()
