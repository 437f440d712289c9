"""Small networks that between them need every barrier and every bound check of the kernels.

They are forced onto a kernel where the choice by rule is another one: odd sizes, channels that fill no word, sums split
among threads, several passes over the input channels, shortcuts, tensors without padding.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from cases import CASES, NONE, SIGNED, residual_block, signed
from networks import Case, Network

from edgemeta.kernels.cuda.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.direct import launch as direct
from edgemeta.kernels.cuda.elementwise import launch as elementwise
from edgemeta.kernels.cuda.kernel import Kernel
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan import Plan
from edgemeta.kernels.cuda.pool_dense import launch as pool_dense
from edgemeta.kernels.cuda.tensor import launch as tensor
from edgemeta.kernels.cuda.winograd import launch as winograd
from edgemeta.model import reference

BY_NAME = {case.name: case for case in CASES}
DIRECT = (direct.candidates, pool_dense.candidates, elementwise.candidates)
WINOGRAD = (winograd.candidates, winograd.alternatives, *DIRECT)
TENSOR = (tensor.candidates, *DIRECT)


@dataclass(frozen=True, eq=False)
class Witness:
    """A network on an architecture, through the given kernels."""

    case: Case
    architecture: str
    kernels: Sequence[Kernel]

    @cache  # noqa: B019 - witnesses live as long as the process
    def plan(self) -> Plan:
        return lower(self.case.model, ARCHITECTURES[self.architecture], kernels=self.kernels)

    @cache  # noqa: B019
    def expected(self) -> tuple[np.ndarray, np.ndarray]:
        """Images and their logits."""
        batch = np.concatenate([batch for _, batch in self.case.batches()])[:4]
        return batch, reference.run(self.case.model, batch)

    def __str__(self) -> str:
        return f"{self.case.name} on {self.architecture}"


def block(name: str, height: int, width: int, inputs: int, outputs: int) -> Case:
    """A strided convolution with a shortcut beside it, and a residual addition."""
    net = Network(name, signed(height, width, inputs))
    shortcut = net.conv(net.start, outputs, (1, 1), (2, 2), NONE, output=SIGNED)
    hidden = net.conv(net.start, outputs, stride=(2, 2), output=SIGNED)
    branch = net.conv(hidden, outputs, output=SIGNED)
    return net.observe(net.add(branch, shortcut, multipliers=(1, 1), shift=1))


def one(name: str, height: int, width: int, inputs: int, outputs: int) -> Case:
    """One 3x3 convolution."""
    net = Network(name, signed(height, width, inputs))
    return net.observe(net.conv(net.start, outputs, output=SIGNED))


def only_rescale() -> Case:
    net = Network("only-rescale", signed(1, 1, 3))
    net.rescale(net.start, SIGNED, "multiplier")
    return net.finish()


def only_pool() -> Case:
    net = Network("only-pool", signed(5, 3, 9))
    net.average(net.start, (5, 3))
    return net.finish()


WITNESSES = {
    "direct": (
        Witness(BY_NAME["conv-3x3-odd-signed"], "sm_87", DIRECT),
        Witness(residual_block("table"), "sm_53", DIRECT),
        Witness(BY_NAME["raw-conv"], "sm_87", DIRECT),
        Witness(block("many-inputs", 5, 4, 150, 20), "sm_53", DIRECT),
        Witness(block("odd-outputs", 7, 5, 9, 9), "sm_53", DIRECT),
        Witness(BY_NAME["conv-3x3-image-unsigned"], "sm_53", DIRECT),
    ),
    "winograd": (
        Witness(one("odd-map", 5, 7, 17, 19), "sm_53", WINOGRAD),
        Witness(block("shortcut", 10, 10, 12, 36), "sm_53", WINOGRAD),
        Witness(one("wide", 5, 5, 200, 12), "sm_53", WINOGRAD),
    ),
    "tensor": (
        Witness(block("tensor", 7, 5, 16, 16), "sm_87", TENSOR),
        Witness(residual_block("table"), "sm_87", TENSOR),
    ),
    "pool_dense": (
        Witness(BY_NAME["average-pool-whole-signed"], "sm_53", DIRECT),
        Witness(only_pool(), "sm_53", DIRECT),
        Witness(BY_NAME["dense-table"], "sm_53", DIRECT),
    ),
    "elementwise": (
        Witness(BY_NAME["rescale-table"], "sm_53", DIRECT),
        Witness(only_rescale(), "sm_53", DIRECT),
    ),
}
