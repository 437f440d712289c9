"""Table 2, our rows: the int8 network with tuned tiles, launched as a graph, and our own float32 network."""

from collections.abc import Sequence
from typing import Any

from benchmarks.gpu.effort import Effort
from benchmarks.gpu.float_network import float_plan_of
from benchmarks.gpu.opened import opened, random_batch
from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.model.graph import FloatModel, Model
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.timing import Stopwatch, host_us
from edgemeta.plugins.cuda.tuning import tuned


def int8_rows(
    model: Model, device: DeviceContext, cubins: Cubins, batches: Sequence[int], effort: Effort
) -> list[dict[str, Any]]:
    """One row per batch size of the integer network."""
    plan = tuned(model, device, cubins, cubins.folder)
    return _rows("edgemeta", "int8", plan, device.number, cubins, batches, effort)


def float32_rows(
    model: FloatModel, device: DeviceContext, cubins: Cubins, batches: Sequence[int], effort: Effort
) -> list[dict[str, Any]]:
    """One row per batch size of the float32 network."""
    plan = float_plan_of(model, device.architecture)
    return _rows("edgemeta", "float32", plan, device.number, cubins, batches, effort)


def _rows(
    runtime: str, kind: str, plan: LaunchPlan, number: int, cubins: Cubins, batches: Sequence[int], effort: Effort
) -> list[dict[str, Any]]:
    rows = []
    with opened(plan, number, cubins) as program:
        for images in batches:
            batch, result = random_batch(plan, images), program.new_outputs(images)
            host = effort.median_us(lambda: host_us(program, batch, result))  # noqa: B023
            stopwatch = Stopwatch(program, images, repeats=1)
            device = effort.median_us(stopwatch.network_us)
            stopwatch.close()
            rows.append({"runtime": runtime, "type": kind, "batch": images, "device_us": device, "host_us": host})
    return rows
