"""Whether random networks have the integers of the oracle on the reference, the cpu backend and emulated ARM.

    python -m benchmarks.random_networks [--first 10000] [--count 2000] [--arm 200]

Numbers in a row begin with every ordered pair of kinds of layers (tests/conformance/random_networks.py). Each network
runs on its 5 batches: every tensor of the reference is compared with the oracle (tests/conformance/oracle.py), which
was written to be unlike it, and the outputs of every instruction set of this machine, on one and two threads, with the
reference's; the first `--arm` of them also on every ARM processor that qemu emulates. Writes
results/random-networks.json and exits with 1 at any difference.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from ctypes import c_void_p
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from benchmarks.result_file import write_json
from edgemeta.kernels.cpu import program
from edgemeta.kernels.cpu.library import supported_isas
from edgemeta.kernels.cpu.program import Program
from edgemeta.model import reference
from edgemeta.model.graph import Model
from edgemeta.model.prove import prove
from edgemeta.plugins.api import Outputs
from rig.arm.library import EmulatedLibrary
from rig.arm.machines import MACHINES, Machine
from tests.conformance import oracle
from tests.conformance.networks import Case
from tests.conformance.random_networks import random_network

Tensor = NDArray[Any]


def main() -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=10_000, help="number of the first network")
    parser.add_argument("--count", type=int, default=2_000, help="networks")
    parser.add_argument("--arm", type=int, default=200, help="networks that also run on emulated ARM processors")
    options = parser.parse_args()
    networks, images, differing = Counter[str](), 0, Counter[str]()
    with ExitStack() as stack:
        machines = {machine: machine.start() for machine in MACHINES} if options.arm else {}
        for library in machines.values():
            stack.callback(library.stop)
        for number in range(options.first, options.first + options.count):
            case = random_network(number)
            prove(case.model)
            batch = np.concatenate([each for _, each in case.batches()])
            images += len(batch)
            emulated = machines if number < options.first + options.arm else {}
            for executor, is_equal in compared(case, batch, emulated):
                networks[executor] += 1
                if not is_equal:
                    differing[executor] += 1
                    print(f"{case.name} differs on {executor}", file=sys.stderr)
    counts = {name: {"networks": count, "differing": differing[name]} for name, count in networks.items()}
    for name, count in counts.items():
        print(f"{name}: {count['networks']} networks, {count['differing']} differ")
    command = f"python -m benchmarks.random_networks --first {options.first} --count {options.count}"
    write_json("random-networks", f"{command} --arm {options.arm}", {"images": images, "executors": counts})
    sys.exit(bool(differing))


def compared(case: Case, batch: Tensor, machines: dict[Machine, EmulatedLibrary]) -> Iterator[tuple[str, bool]]:
    """Every executor, and whether it has the integers that it should have."""
    tensors = reference.trace(case.model, batch)
    expected = oracle.trace(case.model, batch)
    yield "reference", all(np.array_equal(tensors[name], expected[name]) for name in expected)
    outputs = tuple(tensors[name] for name in case.model.outputs)
    for isa in supported_isas():
        yield f"cpu {isa}", all(is_equal(run(case.model, batch, isa, threads), outputs) for threads in (1, 2))
    for machine, library in machines.items():
        with mock.patch.object(program, "library", return_value=library):
            found = run(case.model, batch, machine.isa, 1)
        yield f"{machine.architecture.name} {machine.isa} ({machine.processor}, emulated)", is_equal(found, outputs)


def run(model: Model, batch: Tensor, isa: str, threads: int) -> Outputs:
    """The outputs of the C++ library."""
    outputs = tuple(np.empty((len(batch), *kind.shape), kind.dtype) for kind in model.output_types)
    with closing(Program(model, isa, threads)) as opened:
        opened.run(len(batch), batch.ctypes.data, (c_void_p * len(outputs))(*(each.ctypes.data for each in outputs)))
    return outputs


def is_equal(found: Outputs, expected: Outputs) -> bool:
    """Whether all integers are equal."""
    return all(np.array_equal(one, other) for one, other in zip(found, expected, strict=True))


if __name__ == "__main__":
    main()
