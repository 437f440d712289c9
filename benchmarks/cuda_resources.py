"""Registers and shared memory of every kernel variant of the shipped networks, on every architecture.

    python benchmarks/cuda_resources.py

Compiles what `lower` chooses by rule for the integer networks, the float32 network, and on sm_53 the paper's design.
Writes results/cuda-resources.json, with which tests/kernels/cuda/compile/test_resource_table.py compares every build.
"""

import argparse
import os
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from benchmarks.gpu.float_network import float_plan_of
from benchmarks.result_file import write_json
from edgemeta.kernels.cuda.compile.compiler import Compiler, wheel_compiler
from edgemeta.kernels.cuda.compile.resources import violations
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Launch, LaunchPlan
from edgemeta.model.file import load
from edgemeta.model.float_file import load_float_model
from edgemeta.model.tasks import Classification
from edgemeta.model.zoo import find, names
from edgemeta_proof.baselines.paper.launch import BASELINE, KERNELS

COMMAND = "python benchmarks/cuda_resources.py"


def main() -> None:
    """Compile everything and write the file; fails if a launch spills or does not fit."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    compiler = wheel_compiler()
    table, found = measure(compiler)
    if found:
        sys.exit("\n".join(found))
    write_json("cuda-resources", COMMAND, {"compiler": str(compiler), "launches": table})


def measure(
    compiler: Compiler, architectures: Iterable[Architecture] = ARCHITECTURES.values()
) -> tuple[dict[str, dict[str, int | str]], list[str]]:
    """One row per launch, by "network arch layers", and an error text for every launch that spills or does not fit."""
    jobs = [
        (f"{network} {plan.architecture.name} {'+'.join(launch.layers)}", launch, plan.architecture)
        for network, plan in plans(architectures)
        for launch in plan.launches
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # the compiler is a library that releases the GIL
        rows = list(pool.map(lambda job: row(job[1], job[2], compiler), jobs))
    table = {name: values for (name, _, _), (values, _) in zip(jobs, rows, strict=True)}
    found = [f"{name}: {fault}" for (name, _, _), (_, faults) in zip(jobs, rows, strict=True) for fault in faults]
    return table, found


def row(launch: Launch, architecture: Architecture, compiler: Compiler) -> tuple[dict[str, int | str], list[str]]:
    """Resources of one launch, and its violations."""
    resources = compiler.build(launch.source, architecture).resources
    values: dict[str, int | str] = {
        "kernel": launch.source.path,
        "threads": launch.block[0] * launch.block[1] * launch.block[2],
        "registers": resources.registers,
        "shared_bytes": resources.shared_bytes + launch.shared_bytes,
    }
    return values, list(violations(launch, resources, architecture))


def plans(architectures: Iterable[Architecture]) -> Iterator[tuple[str, LaunchPlan]]:
    """Every plan of these architectures that the table covers."""
    models = {name: load(find(name)) for name in names()}
    floating = load_float_model(find("resnet8-cifar10-float"))
    for architecture in architectures:
        for name, model in models.items():
            yield name, lower(model, architecture)
            if architecture.name == "sm_53" and isinstance(model.task, Classification):  # others need later kernels
                yield f"{name} (paper)", lower(model, architecture, kernels=KERNELS)
                yield f"{name} (paper, tiled)", lower(model, architecture, kernels=BASELINE)
        yield f"{floating.name} (float32)", float_plan_of(floating, architecture)


if __name__ == "__main__":
    main()
