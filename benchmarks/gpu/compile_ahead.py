"""Compiles, on all cores, every kernel that the gpu tests and measurements load: one at a time they take half an hour.

    python benchmarks/gpu/compile_ahead.py [--arch sm_90]     # into the cache; without --arch for this machine's GPU

What fails to compile is left to the test or measurement that wants it, which reports the error.
"""

import argparse
import logging
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing import get_context

from benchmarks.gpu.float_network import float_plan_of
from edgemeta.cli.progress import progress_bar
from edgemeta.kernels.cuda.compile.cache import Cubins
from edgemeta.kernels.cuda.compile.compiler import find_compiler
from edgemeta.kernels.cuda.compile.tool import CompilerError
from edgemeta.kernels.cuda.lowering import KERNELS, candidate_counts, lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan, Source
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model.file import load
from edgemeta.model.float_file import load_float_model
from edgemeta.model.zoo import find
from edgemeta.plugins.cuda.device import DeviceContext
from edgemeta_proof.baselines.paper import launch as paper
from tests.conformance.cases import CASES

MODELS = ("resnet8-cifar10", "resnet8-cifar10-paper", "resnet8-cifar10-pot5")


def main() -> None:
    """Compile what is missing and say how long it took."""
    logging.basicConfig(level=logging.WARNING)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", choices=list(ARCHITECTURES), help="GPU generation, instead of this machine's GPU")
    chosen = parser.parse_args().arch
    architecture = ARCHITECTURES[chosen] if chosen else _of_this_machine()
    sources = list(dict.fromkeys(source for plan in plans(architecture) for source in plan.sources))
    began = time.monotonic()
    cores = len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(cores, get_context("spawn")) as pool, progress_bar("compiling") as progress:
        kept = []
        for fine in pool.map(partial(compile_one, architecture=architecture), sources):
            kept.append(fine)
            progress(len(kept), len(sources))
    print(
        f"{sum(kept)} of {len(sources)} kernels for {architecture.name} are in the cache, "
        f"{time.monotonic() - began:.0f} s on {cores} cores",
        file=sys.stderr,
    )


def plans(architecture: Architecture) -> Iterator[LaunchPlan]:
    """The conformance table's plans, each candidate of the shipped networks, the paper's kernels, and float32."""
    for case in CASES:
        with suppress(UnsupportedError):
            yield lower(case.model, architecture)
    for name in MODELS:
        model = load(find(name))
        families = (KERNELS, paper.KERNELS, paper.BASELINE) if name == MODELS[0] else (KERNELS,)
        for kernels in families:
            counts = candidate_counts(model, architecture, kernels)
            for k in range(max(counts.values())):
                yield lower(model, architecture, {layer: k for layer, count in counts.items() if k < count}, kernels)
    yield float_plan_of(load_float_model(find("resnet8-cifar10-float")), architecture)


def compile_one(source: Source, architecture: Architecture) -> bool:
    """Put one kernel into the cache; whether it compiled."""
    try:
        Cubins(None, find_compiler(architecture)).keep(source, architecture)
    except CompilerError:
        return False
    return True


def _of_this_machine() -> Architecture:
    device = DeviceContext(0)
    device.close()
    return device.architecture


if __name__ == "__main__":
    main()
