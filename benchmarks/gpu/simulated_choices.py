"""Which kernels and forms only a simulation chose, and how a device decides each; run by benchmarks/gpu/run.sh.

    python benchmarks/gpu/simulated_choices.py            # on a machine with a GPU: decides, writes the verdicts

CHOICES is the table. On a device each choice is timed with and without it; the verdict is to keep what saves at least
KEPT of the time, else to delete it: its decision page stays. Writes results/simulated-choices.json and .md.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.cuda_low_bits import OTHERS, POPCOUNT_LAYERS, of_bits, of_signs, of_weights
from benchmarks.gpu.effort import Effort
from benchmarks.gpu.opened import opened, random_batch
from benchmarks.result_file import RESULTS, write_json, write_markdown
from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.compiler import find_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import one_cluster, one_launch
from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.kernels.cuda.popc import launch as popc
from edgemeta.kernels.cuda.tensor import launch as tensor
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta.plugins.cuda.driver import first_line
from edgemeta.plugins.cuda.timing import Stopwatch
from tests.kernels.cuda.one_step import Layout, plan_of, step_of

COMMAND = "python benchmarks/gpu/simulated_choices.py"
KEPT = 0.03
"""Least share of the time that a choice must save, or its code is not worth having."""

LAYER = POPCOUNT_LAYERS[1]
Plans = tuple[LaunchPlan, LaunchPlan]
"""With the choice, and without it."""


@dataclass(frozen=True)
class Choice:
    """default: what runs without a measurement. plans: raises UnsupportedError where a device has no such form."""

    name: str
    source: str
    default: str
    decision: str
    plans: Callable[[Model, Layout, Architecture], Plans]


def _popc(_: Model, layout: Layout, architecture: Architecture) -> Plans:
    model = of_weights(layout, of_signs, 1)
    step, tensors = step_of(model)
    other = next(each for kernel in OTHERS for each in kernel(step, tensors, architecture))
    own = next(iter(popc.forced(step, tensors, architecture)))
    return plan_of(model, own, architecture), plan_of(model, other, architecture)


def _int4(_: Model, layout: Layout, architecture: Architecture) -> Plans:
    if not architecture.tensor_int4:
        raise UnsupportedError(f"{architecture.name} has no matrix instructions of 4 bits")
    model = of_bits(layout, 4, 4, True, 4)
    found = list(tensor.candidates(*step_of(model), architecture))
    own, other = (next(each for each in found if each.tile["bits"] == bits) for bits in (4, 8))
    return plan_of(model, own, architecture, nibbles=True), plan_of(model, other, architecture)


def _one_launch(model: Model, _: Layout, architecture: Architecture) -> Plans:
    plan = lower(model, architecture)
    return one_launch(plan), plan


def _cluster(model: Model, _: Layout, architecture: Architecture) -> Plans:
    plan = lower(model, architecture)
    return one_cluster(plan), one_launch(plan)


def _ahead(model: Model, _: Layout, architecture: Architecture) -> Plans:
    """Without room in shared memory nothing is copied ahead."""
    plan = lower(model, architecture)
    used = max(launch.shared_bytes for launch in plan.launches)
    own = one_launch(plan)
    other = one_launch(replace(plan, architecture=replace(architecture, shared_bytes=used)))
    if own.launches[0].source == other.launches[0].source:
        raise UnsupportedError(f"nothing is copied ahead on {architecture.name}")
    return own, other


CHOICES = (
    Choice("popcount", "kernels/cuda/popc", "by estimate, before anything is measured", "popc/README.md", _popc),
    Choice("int4 forms", "kernels/cuda/tensor", "by estimate, before anything is measured", "tensor/README.md", _int4),
    Choice("one launch", "kernels/cuda/one_launch", "the graph of launches", "decision 74", _one_launch),
    Choice("cluster", "kernels/cuda/one_launch/cluster.cuh", "the graph of launches", "notebook 55", _cluster),
    Choice("copies ahead", "kernels/cuda/one_launch/ahead.py", "the graph of launches", "notebook 55", _ahead),
)


def decided(
    model: Model, layout: Layout, device: DeviceContext, cubins: Cubins, effort: Effort
) -> Iterator[dict[str, Any]]:
    """The verdict on each choice: microseconds on the device with it and without it, or why it is left open."""
    architecture = replace(device.architecture, multiprocessors=device.multiprocessors)
    for choice in CHOICES:
        row = {"choice": choice.name, "source": choice.source, "default": choice.default, "decision": choice.decision}
        try:
            own, other = (
                _us(plan, device.number, cubins, effort) for plan in choice.plans(model, layout, architecture)
            )
        except (UnsupportedError, device.cuda.Error) as error:
            yield {**row, "verdict": f"open: {first_line(error)}"}
            continue
        yield {**row, "with_us": own, "without_us": other, "verdict": verdict(own, other)}


def verdict(with_us: float, without_us: float) -> str:
    """Keep what saves enough."""
    return "keep" if with_us <= (1 - KEPT) * without_us else "delete"


def _us(plan: LaunchPlan, number: int, cubins: Cubins, effort: Effort) -> float:
    with opened(plan, number, cubins) as program:
        program.run(random_batch(plan, 1), program.new_outputs(1))
        stopwatch = Stopwatch(program)
        found = effort.median_us(stopwatch.network_us)
        stopwatch.close()
        return found


def table(rows: list[Mapping[str, Any]]) -> str:
    """Markdown."""
    lines = [
        "| choice | code | without a measurement | with, us | without, us | verdict |",
        "|---|---|---|---:|---:|---|",
    ]
    for row in rows:
        times = [f"{row[key]:.1f}" if key in row else "" for key in ("with_us", "without_us")]
        lines.append(
            f"| {row['choice']} | {row['source']} | {row['default']} | {times[0]} | {times[1]} | {row['verdict']} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Decide on device 0 and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder to write to")
    folder = parser.parse_args().results
    device = DeviceContext(0)
    try:
        cubins = Cubins(None, find_compiler(device.architecture))
        model = load(find("resnet8-cifar10"))
        rows = list(decided(model, LAYER, device, cubins, Effort(50, 200)))
        where = {"name": device.name, "architecture": device.architecture.name, "driver": device.driver}
    finally:
        device.close()
    write_json("simulated-choices", COMMAND, {"device": where, "choices": rows}, folder)
    write_markdown("simulated-choices", COMMAND, f"{where['name']}.\n\n{table(rows)}", folder)
    print(table(rows))


if __name__ == "__main__":
    main()
