"""Which form of a network runs if the option `launch` does not say: a CUDA graph of its launches, or one of them all.

Measured on the device once per network and stored as JSON beside the compiled kernels: microseconds by form. Without a
measurement, or where blocks that wait for each other are not safe, it is the graph. The log says why.
"""

import hashlib
import json
import logging
import os
from math import inf, prod
from pathlib import Path

import numpy as np

from edgemeta.kernels.cuda.compile.cache import Cubins, digest
from edgemeta.kernels.cuda.compile.tool import CompilerError
from edgemeta.kernels.cuda.one_launch.plan import GRAPH, NETWORK, ONE_CLUSTER, Forms, forms_of
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.plugins.cuda import tuning
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.loaded_plan import LoadedPlan
from edgemeta.plugins.cuda.timing import host_us

_log = logging.getLogger(__name__)

_NAMES = {
    GRAPH: "a CUDA graph of its launches",
    NETWORK: "one launch of the whole network",
    ONE_CLUSTER: "one launch of the whole network, its blocks one cluster",
}


def fastest_form(plan: LaunchPlan, device: DeviceContext, cubins: Cubins, *, compiles: bool) -> LaunchPlan:
    """The plan itself or the same network as one launch, whichever is faster here; logs the choice and its reason.

    compiles: whether the forms of one launch may be compiled for the measurement, which takes minutes on a small
    device; otherwise those are measured whose kernel is in `cubins`. Raises BackendError if the device refuses a
    context.
    """
    form, name, reason = _chosen(plan, device, cubins, compiles and cubins.compiler is not None)
    _log.info("launch: %s: %s", _NAMES[name], reason)
    return form


def _chosen(plan: LaunchPlan, device: DeviceContext, cubins: Cubins, compiles: bool) -> tuple[LaunchPlan, str, str]:
    """The form's plan, its name and the reason."""
    if _is_shared():
        return plan, GRAPH, "the GPU is shared through MPS, where blocks of one launch might wait for ever"
    try:
        every = forms_of(plan, device.multiprocessors)
    except UnsupportedError as error:
        return plan, GRAPH, str(error)
    forms = {name: form for name, form in every.items() if form is plan or compiles or _holds(cubins, form)}
    if len(forms) == 1:
        return plan, GRAPH, "one launch is not compiled; `edgemeta kernels build` does it"
    file = cubins.folder / "launch" / f"{tuning.as_file_name(device.name)}-{_digest(every)}.json"
    times_us = _stored(file, forms)
    if times_us is None:
        _log.info("tuning: measuring the forms of launch on %s, once per model", device.name)
        times_us = {name: _least_us(name, form, device, cubins) for name, form in forms.items()}
        tuning.keep(file, times_us)
    order = sorted(times_us, key=lambda name: times_us[name])  # of equal ones the first
    return forms[order[0]], order[0], ", ".join(f"{times_us[name]} us as {_NAMES[name]}" for name in order)


def _least_us(name: str, form: LaunchPlan, device: DeviceContext, cubins: Cubins) -> float:
    """Microseconds of an image from host memory to host memory; infinite for a form that does not compile or run."""
    try:
        found = tuning.measured(form, device.number, cubins, _host_us)
    except (CompilerError, UnsupportedError) as error:
        _log.warning("tuning: %s is skipped: %s", _NAMES[name], error)
        found = None
    return inf if found is None else round(found, 1)


def _host_us(loaded: LoadedPlan) -> float:
    image = np.zeros((1, *loaded.plan.input.shape), loaded.plan.input.kind.dtype)
    outputs = loaded.new_outputs(1)
    for _ in range(tuning.WARM_UP_RUNS + 1):  # the first run prepares the others
        loaded.run(image, outputs)
    return min(host_us(loaded, image, outputs) for _ in range(tuning.TIMED_RUNS))


def _stored(file: Path, forms: Forms) -> dict[str, float] | None:
    """The times of these forms; None if they are not stored, or damaged: they are measured again."""
    try:
        times_us = json.loads(file.read_text("utf-8"))
        return {name: float(times_us[name]) for name in forms}
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _holds(cubins: Cubins, plan: LaunchPlan) -> bool:
    return all(cubins.has(source, plan.architecture) for source in plan.sources)


def _digest(forms: Forms) -> str:
    """Of the architecture and all that determines the code of all forms."""
    architecture, total = forms[GRAPH].architecture, hashlib.sha256()
    for launch in (launch for form in forms.values() for launch in form.launches):
        total.update(f"{digest(launch.source, architecture)} {prod(launch.grid)} {launch.shared_bytes}\n".encode())
    return f"{architecture.name}-{total.hexdigest()[:24]}"


def _is_shared() -> bool:
    """Whether NVIDIA's multi-process service runs: other processes' kernels may hold places of the blocks."""
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps"), "control").exists()  # noqa: S108
