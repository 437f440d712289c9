"""Executes the machine code of our CUDA kernels on data, without a GPU, and compares every integer with the reference.

    python benchmarks/machine_code_proof.py --data FOLDER [--arch sm_53] [--images 50]
    python benchmarks/machine_code_proof.py --data FOLDER --one-launch [--arch sm_53] [--images 50]
    python benchmarks/machine_code_proof.py --data FOLDER --cluster --arch sm_90 [--images 50]
    python benchmarks/machine_code_proof.py --table [--arch sm_53]

Networks: both shipped ones, on the first test images of CIFAR-10 (FOLDER/cifar10/test.npz). Writes
results/machine-code-ARCH.json. One launch, cluster: each network as one kernel, the first block always as far ahead as
its barriers let it. Writes one-launch-ARCH.json and one-cluster-ARCH.json. Table: every case of the conformance table
on all of its batches, some minutes. Writes machine-code-table-ARCH.json.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from click import progressbar
from numpy.typing import NDArray

from benchmarks.result_file import write_json
from edgemeta.kernels.cuda.compile.compiler import Compiler, wheel_compiler
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import check_resident, one_cluster, one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source
from edgemeta.kernels.lowering.steps import UnsupportedError
from edgemeta.model import reference
from edgemeta.model.file import load
from edgemeta.model.graph import Model
from edgemeta.model.zoo import find
from edgemeta_proof.machine_code.execution.plan import ExecutedPlan
from tests.conformance.cases import CASES
from tests.plugins.cuda.proofs import first_images
from tests.proof.machine_code.execution.compiled import CompiledOnce

NETWORKS = ("resnet8-cifar10", "resnet8-cifar10-paper")
FORMS = {"one-launch": one_launch, "one-cluster": one_cluster}


def main() -> None:
    """Execute everything and write the file; exit 1 if an integer differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="needed for the networks, not for --table")
    parser.add_argument("--arch", choices=ARCHITECTURES, default="sm_53")
    parser.add_argument("--images", type=int, default=50)
    parser.add_argument("--one-launch", dest="form", action="store_const", const="one-launch")
    parser.add_argument("--cluster", dest="form", action="store_const", const="one-cluster")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    architecture, compiler = ARCHITECTURES[options.arch], wheel_compiler()
    if options.table:
        _prove_table(architecture, compiler)
        return
    if options.data is None:
        parser.error("--data FOLDER is missing: the networks are executed on test images of CIFAR-10")
    if options.form:
        _prove_one_launch(options.form, architecture, compiler, options.data, options.images)
        return
    networks = {
        name: network(load(find(name)), architecture, compiler, options.data, options.images) for name in NETWORKS
    }
    command = f"python benchmarks/machine_code_proof.py --data FOLDER --arch {options.arch} --images {options.images}"
    write_json(f"machine-code-{options.arch}", command, {"compiler": str(compiler), "networks": networks})
    if any(each["mismatches"] for each in networks.values()):
        sys.exit("the machine code does not give the reference's integers")


def _prove_one_launch(form: str, architecture: Architecture, compiler: Compiler, data: Path, count: int) -> None:
    """The same for networks as one launch; also registers, blocks and issued warp-instructions of an image."""
    rows: dict[str, dict[str, Any]] = {}
    for name in NETWORKS:
        model = load(find(name))
        images = first_images(model, data, count)
        plan = FORMS[form](lower(model, architecture))
        (launch,) = plan.launches
        resources = compiler.build(launch.source, architecture).resources
        check_resident(launch, resources, architecture, architecture.multiprocessors)
        executed = ExecutedPlan(plan, compiler, "forward")
        started = process_time()
        found = [executed.run(images[n : n + 1]) for n in range(count)]
        together = [np.concatenate(each) for each in zip(*found, strict=True)]
        rows[name] = {
            "images": count,
            "mismatches": differing(together, reference.run(model, images)),
            "seconds": round(process_time() - started, 1),
            "warp_instructions": executed.warp_instructions // count,
            "blocks": launch.grid[0],
            "threads": launch.block[0],
            "shared_bytes": launch.shared_bytes,
            "registers": resources.registers,
            **launch.tile,
        }
        print(f"{name}: {rows[name]}", flush=True)
    option = "--cluster" if form == "one-cluster" else "--one-launch"
    command = f"python benchmarks/machine_code_proof.py --data FOLDER {option} --arch {architecture.name}"
    write_json(
        f"{form}-{architecture.name}",
        f"{command} --images {count}",
        {"compiler": str(compiler), "networks": rows},
    )
    if any(each["mismatches"] for each in rows.values()):
        sys.exit("the machine code does not give the reference's integers")


def network(model: Model, architecture: Architecture, compiler: Compiler, data: Path, count: int) -> dict[str, Any]:
    """Images, outputs that differ, and seconds of processor time."""
    images = first_images(model, data, count)
    plan = ExecutedPlan(lower(model, architecture), compiler)
    started = process_time()
    found = plan.run(images)
    seconds = process_time() - started
    result = {"images": len(images), "mismatches": differing(found, reference.run(model, images))}
    print(f"{model.name}: {result}, {seconds:.1f} s", flush=True)
    return {**result, "seconds": round(seconds, 1)}


def _prove_table(architecture: Architecture, compiler: Compiler) -> None:
    """Every case of the conformance table on all of its batches; also how many launches of each kernel they have."""
    started, once = process_time(), CompiledOnce(compiler)
    images = mismatches = 0
    variants: set[Source] = set()
    launches: Counter[str] = Counter()
    without: list[str] = []
    with progressbar(CASES, label=f"table, {architecture.name}", file=sys.stderr) as cases:
        for case in cases:
            try:
                plan = lower(case.model, architecture)
            except UnsupportedError as error:
                without.append(f"{case.name}: {error}")
                continue
            batch = np.concatenate([each for _, each in case.batches()])
            wrong = differing(ExecutedPlan(plan, once).run(batch), reference.run(case.model, batch))
            if wrong:
                print(f"{case.name}: {wrong} differ", flush=True)
            images, mismatches = images + len(batch), mismatches + wrong
            variants.update(plan.sources)
            launches.update(each.source.path for each in plan.launches)
    values = {
        "cases": len(CASES) - len(without),
        "without_a_kernel": without,
        "images": images,
        "variants": len(variants),
        "launches": dict(sorted(launches.items())),
        "mismatches": mismatches,
        "seconds": round(process_time() - started),
    }
    print(f"{architecture.name}: {values}", flush=True)
    command = f"python benchmarks/machine_code_proof.py --table --arch {architecture.name}"
    write_json(f"machine-code-table-{architecture.name}", command, {"compiler": str(compiler), **values})
    if mismatches:
        sys.exit("the machine code does not give the reference's integers")


def differing(found: Sequence[NDArray[Any]], expected: Sequence[NDArray[Any]]) -> int:
    """Integers that are not the reference's."""
    return sum(int(np.count_nonzero(f.reshape(e.shape) != e)) for f, e in zip(found, expected, strict=True))


if __name__ == "__main__":
    main()
