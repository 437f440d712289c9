"""Table 1: the three Winograd layers measured in the paper, for every kernel that supports them, ours and the paper's.

They are conv1, conv5 and conv8 of the shipped ResNet-8: 32x32x16, 16x16x32 and 8x8x64, each with its requantization,
the last two with their residual addition. Every kernel's best tile counts; each is first compared with the reference.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.gpu.effort import Effort
from benchmarks.gpu.opened import opened, random_batch
from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.lowering import KERNELS, candidate_counts, lower
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.kernel import Kernel
from edgemeta.kernels.cuda.plan.launch_plan import Launch, LaunchPlan
from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.plugins.cuda.timing import Stopwatch
from edgemeta_proof.baselines.paper import launch as paper

LAYERS = {"conv1": "32x32x16", "conv5": "16x16x32", "conv8": "8x8x64"}


def convolution_rows(
    model: Model, architecture: Architecture, number: int, cubins: Cubins, effort: Effort
) -> list[dict[str, Any]]:
    """One row per layer and kernel: `layer`, `size`, `kernel`, `tile`, `device_us`.

    Raises ValueError at a wrong bit.
    """
    best: dict[tuple[str, str], dict[str, Any]] = {}
    for kernels in (KERNELS, paper.KERNELS, paper.BASELINE):
        for plan in _plans(model, architecture, kernels):
            for launch, microseconds in _times(model, plan, number, cubins, effort):
                key = (launch.layers[0], _kernel(launch))
                row = {
                    "layer": key[0],
                    "size": LAYERS[key[0]],
                    "kernel": key[1],
                    "tile": dict(launch.tile),
                    "device_us": microseconds,
                }
                if key not in best or microseconds < best[key]["device_us"]:
                    best[key] = row
    return sorted(best.values(), key=lambda row: (row["layer"], row["device_us"]))


def _plans(model: Model, architecture: Architecture, kernels: Sequence[Kernel]) -> Iterator[LaunchPlan]:
    """Plans that together contain every candidate for the three layers."""
    counts = candidate_counts(model, architecture, kernels)
    for k in range(max(counts[layer] for layer in LAYERS)):
        yield lower(model, architecture, {layer: k for layer in LAYERS if k < counts[layer]}, kernels)


def _times(model: Model, plan: LaunchPlan, number: int, cubins: Cubins, effort: Effort) -> list[tuple[Launch, float]]:
    with opened(plan, number, cubins) as program:
        image = random_batch(plan, 1)
        results = program.new_outputs(1)
        program.run(image, results)
        if not np.array_equal(results[0], reference.run(model, image)[0]):
            raise ValueError(f"the plan of {[launch.source.path for launch in plan.launches]} computes wrong logits")
        stopwatch = Stopwatch(program)
        try:
            timed = [launch for launch in plan.launches if launch.layers[0] in LAYERS]
            return [(launch, effort.median_us(lambda each=launch: stopwatch.launch_us(each))) for launch in timed]
        finally:
            stopwatch.close()


def _kernel(launch: Launch) -> str:
    m = launch.tile.get("m")
    return launch.source.entry if m is None else f"{launch.source.entry} F({m}x{m}, 3x3)"
