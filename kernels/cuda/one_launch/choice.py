"""Chooses by predicted time: the launches of a plan as a CUDA graph, one launch of the network, or one of a cluster.

A prediction takes a minute, most of it for compiling the whole network as one kernel, so it is made ahead of time
(`edgemeta kernels build`) and kept beside the compiled kernels. Its file is named by all that determines the code of
all forms: a prediction for other tiles, other kernels or another number of multiprocessors is not found.
"""

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path

from edgemeta.kernels.cuda.compile.cache import digest
from edgemeta.kernels.cuda.compile.compiler import Build, Compiler, CompilerError
from edgemeta.kernels.cuda.machine_code.devices import DEVICES
from edgemeta.kernels.cuda.one_launch.plan import check_resident, one_cluster, one_launch
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan, Source, UnsupportedError

log = logging.getLogger(__name__)

GRAPH, NETWORK, CLUSTER = "graph", "network", "cluster"
"""Forms of a network: its launches as a CUDA graph, one launch whose blocks poll a word, one launch of a cluster."""

_NAMES = {GRAPH: "a CUDA graph of {} launches", NETWORK: "one launch", CLUSTER: "one launch of a cluster"}


@dataclass(frozen=True)
class Prediction:
    """Microseconds of an image on the described device by form, each as a CUDA graph; launches: of the form GRAPH."""

    device: str
    launches: int
    times_us: Mapping[str, float]

    @property
    def fastest(self) -> str:
        """The form that takes the shortest time, of equal ones the first."""
        return min(self.times_us, key=lambda form: self.times_us[form])

    def __str__(self) -> str:
        order = sorted(self.times_us, key=lambda form: self.times_us[form])
        times = [f"{self.times_us[form]} us as {_NAMES[form].format(self.launches)}" for form in order]
        return f"{', '.join(times)}, predicted for a {self.device}"


Forms = Mapping[str, LaunchPlan]
"""A network in every form that it has, GRAPH first."""


def forms_of(plan: LaunchPlan, multiprocessors: int | None = None) -> Forms:
    """Raises UnsupportedError for a network that has no form of one launch. multiprocessors: as of `one_launch`."""
    forms = {GRAPH: plan, NETWORK: one_launch(plan, multiprocessors)}
    if min(plan.architecture.cluster_blocks, multiprocessors or plan.architecture.multiprocessors) > 1:
        forms[CLUSTER] = one_cluster(plan, multiprocessors)
    return forms


def predict(forms: Forms, compiler: Compiler) -> tuple[Prediction, dict[Source, Build]]:
    """All forms simulated from their machine code; also the compiled kernels.

    Raises UnsupportedError without a description of the architecture's device or if the blocks are not resident at
    once, CompilerError, SassError, and ExecutionError for machine code that is not modelled.
    """
    plan = forms[GRAPH]
    architecture = plan.architecture
    device = DEVICES.get(architecture.name)
    if device is None:
        raise UnsupportedError(f"no device of {architecture.name} is described")
    builds: dict[Source, Build] = {}
    times_us: dict[str, float] = {}
    for name, form in forms.items():
        builds |= {source: compiler.build(source, architecture) for source in form.sources if source not in builds}
        for launch in form.launches:
            if launch.is_persistent:
                check_resident(launch, builds[launch.source].resources, architecture, architecture.multiprocessors)
        timer = device.timer(form)
        busy = [timer.clocks(launch, builds[launch.source]) / device.clock_mhz for launch in form.launches]
        times_us[name] = round(device.graph_us(busy), 1)
    return Prediction(device.name, len(plan.launches), times_us), builds


def store(folder: Path, forms: Forms, prediction: Prediction) -> None:
    """Keep a prediction in a cache folder. Raises CompilerError if it cannot be written."""
    file = _file(folder, forms)
    temporary = file.with_suffix(".part")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(asdict(prediction), indent=2) + "\n", "utf-8")
        temporary.replace(file)
    except OSError as error:
        raise CompilerError(f"predicted times cannot be stored in {folder}: {error.strerror}") from None


def stored(folder: Path, forms: Forms) -> Prediction | None:
    """The prediction for these forms of a network; None if there is none, or a damaged one, which is logged."""
    file = _file(folder, forms)
    try:
        values = json.loads(file.read_text("utf-8"))
        times_us = {name: float(values["times_us"][name]) for name in forms}
        return Prediction(str(values["device"]), int(values["launches"]), times_us)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("predicted times in %s cannot be read and are ignored: %s", file, error)
        return None


def _file(folder: Path, forms: Forms) -> Path:
    architecture = forms[GRAPH].architecture
    total = hashlib.sha256()
    for launch in (launch for form in forms.values() for launch in form.launches):
        total.update(f"{digest(launch.source, architecture)} {prod(launch.grid)} {launch.shared_bytes}\n".encode())
    return folder / "launch" / f"{architecture.name}-{total.hexdigest()[:24]}.json"
