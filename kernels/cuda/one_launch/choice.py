"""Chooses between the launches of a plan, as a CUDA graph, and one launch of the whole network by their predicted time.

A prediction takes a minute, most of it for compiling the whole network as one kernel, so it is made ahead of time
(`edgemeta kernels build`) and kept beside the compiled kernels. Its file is named by all that determines the code of
both forms: a prediction for other tiles, other kernels or another number of multiprocessors is not found.
"""

import hashlib
import json
import logging
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path

from edgemeta.kernels.cuda.compile.cache import digest
from edgemeta.kernels.cuda.compile.compiler import Build, Compiler, CompilerError
from edgemeta.kernels.cuda.machine_code.devices import DEVICES
from edgemeta.kernels.cuda.one_launch.plan import check_resident
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan, UnsupportedError

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prediction:
    """Microseconds of an image on the described device, both as a CUDA graph; launches: of the form with several."""

    device: str
    launches: int
    graph_us: float
    network_us: float

    @property
    def prefers_network(self) -> bool:
        """Whether one launch of the whole network is faster."""
        return self.network_us < self.graph_us

    def __str__(self) -> str:
        several = f"{self.graph_us} us as a CUDA graph of {self.launches} launches"
        one = f"{self.network_us} us as one launch"
        first, second = (one, several) if self.prefers_network else (several, one)
        return f"{first}, {second}, predicted for a {self.device}"


def predict(plan: LaunchPlan, joined: LaunchPlan, compiler: Compiler) -> tuple[Prediction, Build]:
    """Both forms simulated from their machine code; also the compiled kernel of the joined one.

    Raises UnsupportedError without a description of the architecture's device or if the blocks are not resident at
    once, CompilerError, SassError, and ExecutionError for machine code that is not modelled.
    """
    architecture = plan.architecture
    device = DEVICES.get(architecture.name)
    if device is None:
        raise UnsupportedError(f"no device of {architecture.name} is described")
    (network,) = joined.launches
    build = compiler.build(network.source, architecture)
    check_resident(network, build.resources, architecture, architecture.multiprocessors)
    timer, clock_mhz = device.timer(plan), device.clock_mhz
    builds = {source: compiler.build(source, architecture) for source in plan.sources}
    busy = [timer.clocks(each, builds[each.source]) / clock_mhz for each in plan.launches]
    whole = device.timer(joined).clocks(network, build) / clock_mhz
    graph_us, network_us = (round(device.graph_us(times), 1) for times in (busy, [whole]))
    return Prediction(device.name, len(busy), graph_us, network_us), build


def store(folder: Path, plan: LaunchPlan, joined: LaunchPlan, prediction: Prediction) -> None:
    """Keep a prediction in a cache folder. Raises CompilerError if it cannot be written."""
    file = _file(folder, plan, joined)
    temporary = file.with_suffix(".part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(asdict(prediction), indent=2) + "\n", "utf-8")
        temporary.replace(file)
    except OSError as error:
        raise CompilerError(f"predicted times cannot be stored in {folder}: {error.strerror}") from None


def stored(folder: Path, plan: LaunchPlan, joined: LaunchPlan) -> Prediction | None:
    """The prediction for two forms of a network; None if there is none, or a damaged one, which is logged."""
    file = _file(folder, plan, joined)
    try:
        values = json.loads(file.read_text("utf-8"))
        times = (float(values["graph_us"]), float(values["network_us"]))
        return Prediction(str(values["device"]), int(values["launches"]), *times)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("predicted times in %s cannot be read and are ignored: %s", file, error)
        return None


def _file(folder: Path, plan: LaunchPlan, joined: LaunchPlan) -> Path:
    architecture = plan.architecture
    total = hashlib.sha256()
    for launch in (*plan.launches, *joined.launches):
        total.update(f"{digest(launch.source, architecture)} {prod(launch.grid)} {launch.shared_bytes}\n".encode())
    return folder / "launch" / f"{architecture.name}-{total.hexdigest()[:24]}.json"
