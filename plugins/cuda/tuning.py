"""Tuning: measures which candidate tile of each kernel is fastest, once per device and model, and stores the result.

The choice affects speed only, never the results. It is stored as JSON beside the compiled kernels: for the first layer
of each launch the number of its candidate and the key of the candidate's variant, so that a result for other kernels
than the current ones is detected and measured again.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np

from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.lowering import candidate_counts, lower
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Launch, LaunchPlan
from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.graph import Model
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.driver import first_line
from edgemeta.plugins.cuda.graph import CapturedGraph
from edgemeta.plugins.cuda.loaded_plan import LoadedPlan
from edgemeta.plugins.cuda.timing import Stopwatch

Choices: TypeAlias = Mapping[str, int]
"""Number of the chosen candidate by the first layer of the launch; layers not listed use 0, the choice by rule."""

T = TypeVar("T")

WARM_UP_RUNS = 3
TIMED_RUNS = 7

_log = logging.getLogger(__name__)


def tuned(model: Model, device: DeviceContext, cubins: Cubins, folder: Path) -> LaunchPlan:
    """The plan of the fastest candidates on a device, read from `folder` or measured and then stored there.

    Measures in contexts of its own. Raises BackendError if the device refuses one, and the errors of `cubins`.
    """
    architecture = device.architecture
    file = folder / "tiles" / f"{as_file_name(device.name)}-{architecture.name}-{model.digest[:16]}.json"
    stored = _stored_plan(file, model, architecture)
    if stored is not None:
        return stored
    _log.info("tuning: measuring the fastest kernels on %s, once per model", device.name)
    counts = _counts(model, architecture)
    fastest = _fastest(model, counts, device, cubins)
    plan = lower(model, architecture, fastest)
    if fastest.keys() == counts.keys():
        _store(file, plan, fastest)
    return plan


def _counts(model: Model, architecture: Architecture) -> Mapping[str, int]:
    """Number of candidates of each layer that has more than one."""
    return {layer: count for layer, count in candidate_counts(model, architecture).items() if count > 1}


def _fastest(model: Model, counts: Mapping[str, int], device: DeviceContext, cubins: Cubins) -> dict[str, int]:
    """Run complete plans, the k-th with every layer's k-th candidate; returns the fastest working one of each layer."""
    best: dict[str, tuple[float, int]] = {}
    for k in range(max(counts.values(), default=0)):
        candidates = {layer: k for layer, count in counts.items() if k < count}
        plan = lower(model, device.architecture, candidates)
        for layer, microseconds in (measured(plan, device.number, cubins, _launch_times) or {}).items():
            if layer in candidates:
                best[layer] = min(best.get(layer, (microseconds, k)), (microseconds, k))
    return {layer: k for layer, (_, k) in best.items()}


def measured(plan: LaunchPlan, number: int, cubins: Cubins, measure: Callable[[LoadedPlan], T]) -> T | None:
    """What `measure` returns of a plan on the device `number`; None, which is logged, if the device refuses the plan.

    It runs in a context of its own, so that an error affects nothing else. Raises the errors of `LoadedPlan`.
    """
    device = DeviceContext(number)
    try:
        with device:
            loaded = LoadedPlan(device, plan, cubins, CapturedGraph)
            found = measure(loaded)
            loaded.close()
            return found
    except device.cuda.Error as error:
        _log.warning("tuning: candidates skipped, %s cannot run them: %s", device.name, first_line(error))
        return None
    finally:
        device.close()


def _launch_times(loaded: LoadedPlan) -> dict[str, float]:
    plan = loaded.plan
    image: Any = np.zeros((1, *plan.input.shape), plan.input.kind.dtype)
    loaded.run(image, loaded.new_outputs(1))
    stopwatch = Stopwatch(loaded)
    try:
        return {launch.layers[0]: _least(stopwatch, launch) for launch in plan.launches}
    finally:
        stopwatch.close()


def _least(stopwatch: Stopwatch, launch: Launch) -> float:
    for _ in range(WARM_UP_RUNS):
        stopwatch.launch_us(launch)
    return min(stopwatch.launch_us(launch) for _ in range(TIMED_RUNS))


def _stored_plan(file: Path, model: Model, architecture: Architecture) -> LaunchPlan | None:
    """The plan of a stored choice; None if there is none or the kernels have changed since."""
    try:
        stored = json.loads(file.read_text("utf-8"))
        choices = {str(layer): int(entry["candidate"]) for layer, entry in stored.items()}
        variants = {str(layer): str(entry["variant"]) for layer, entry in stored.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    counts = _counts(model, architecture)
    if choices.keys() != counts.keys() or any(not 0 <= choices[layer] < counts[layer] for layer in counts):
        return None
    plan = lower(model, architecture, choices)
    return plan if _variants(plan, choices) == variants else None


def _store(file: Path, plan: LaunchPlan, choices: Choices) -> None:
    variants = _variants(plan, choices)
    keep(file, {layer: {"candidate": k, "variant": variants[layer]} for layer, k in choices.items()})


def keep(file: Path, measured: Mapping[str, object]) -> None:
    """Store what was measured as JSON; logs a file that cannot be written."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, (json.dumps(measured, indent=2) + "\n").encode())
    except OSError as error:
        _log.warning("tuning: the result is not stored, %s cannot be written: %s", file, error.strerror)


def _variants(plan: LaunchPlan, choices: Choices) -> dict[str, str]:
    """Key of the variant of each chosen launch."""
    return {launch.layers[0]: launch.source.key for launch in plan.launches if launch.layers[0] in choices}


def as_file_name(name: str) -> str:
    """The name of a device in lower case, words joined by hyphens."""
    return re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-").lower()
