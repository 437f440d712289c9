"""Small networks that between them need every barrier and every bound check of the kernels.

They are forced onto a kernel where the choice by rule is another one: odd sizes, channels that fill no word, sums split
among threads, several passes over the input channels, shortcuts, tensors without padding.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from edgemeta.kernels.cuda.direct import launch as direct
from edgemeta.kernels.cuda.elementwise import launch as elementwise
from edgemeta.kernels.cuda.grouped import launch as grouped
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.one_launch.plan import one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.kernel import Candidate, Kernel, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.kernels.cuda.pool import launch as pool
from edgemeta.kernels.cuda.pool_dense import launch as pool_dense
from edgemeta.kernels.cuda.popc import launch as popc
from edgemeta.kernels.cuda.rearrange import launch as rearrange
from edgemeta.kernels.cuda.resize import launch as resize
from edgemeta.kernels.cuda.tensor import launch as tensor
from edgemeta.kernels.cuda.winograd import launch as winograd
from edgemeta.kernels.lowering.steps import Step
from edgemeta.model.layers import MaxPool, TensorType
from edgemeta.model.tasks import Embedding
from edgemeta_proof.baselines.float32.launch import FloatConv, FloatHead, float_plan
from edgemeta_proof.baselines.float32.paper import paper_float_plan
from edgemeta_proof.baselines.paper import launch as paper
from tests.conformance.cases import CASES, NONE, SAME, SIGNED, residual_block, signed
from tests.conformance.networks import Case, NetworkBuilder
from tests.emulation.executor import Emulator

BY_NAME = {case.name: case for case in CASES}
DIRECT = (direct.candidates, pool_dense.candidates, elementwise.candidates)
WINOGRAD = (winograd.candidates, winograd.alternatives, *DIRECT)
TENSOR = (tensor.candidates, *DIRECT)
POPC = (popc.forced, *DIRECT)


def popc_in_passes(step: Step, tensors: Tensors, architecture: Architecture) -> Iterable[Candidate]:
    """Popcount kernels that fill their shared memory several times even for small layers."""
    return popc.forced(step, tensors, replace(architecture, shared_bytes=4096))


IN_PASSES = (popc_in_passes, *DIRECT)
ALL = (*DIRECT, grouped.candidates, pool.candidates, rearrange.candidates, resize.candidates)


class Witness:
    """A plan, images for it, and the results of the unchanged kernels (which equal the reference by other tests)."""

    def __init__(self, name: str, make_plan: Callable[[], LaunchPlan], make_batch: Callable[[], np.ndarray]) -> None:
        self._name, self._make_plan, self._make_batch = name, make_plan, make_batch

    @cached_property
    def plan(self) -> LaunchPlan:
        return self._make_plan()

    @cached_property
    def batch(self) -> np.ndarray:
        return self._make_batch()

    @cached_property
    def logits(self) -> np.ndarray:
        return Emulator(self.plan, mode="quick").run(self.batch)[0]

    def __str__(self) -> str:
        return self._name


def integer(case: Case, architecture: str, kernels: Sequence[Kernel], images: int = 4) -> Witness:
    """A network on an architecture with the given kernels; the first images of the case."""

    def plan() -> LaunchPlan:
        return lower(case.model, ARCHITECTURES[architecture], kernels=kernels)

    return Witness(
        f"{case.name} on {architecture}", plan, lambda: np.concatenate([b for _, b in case.batches()])[:images]
    )


def joined(case: Case, architecture: str, kernels: Sequence[Kernel]) -> Witness:
    """The same as one launch, of as many blocks as two multiprocessors have place for; one image."""

    def plan() -> LaunchPlan:
        return one_launch(lower(case.model, ARCHITECTURES[architecture], kernels=kernels), 2)

    return Witness(f"{case.name} in one launch", plan, lambda: next(iter(case.batches()))[1][:1])


def floats(name: str, float_plan: Callable[..., LaunchPlan]) -> Witness:
    """Convolutions of three channels, strided with a shortcut, and with a residual; the head. All sizes are odd."""
    rng = np.random.default_rng(0)

    def conv(name: str, source: str, size: int, inputs: int, outputs: int, stride: int, **rest: Any) -> FloatConv:
        weight = rng.normal(0, 0.5, (outputs, size, size, inputs)).astype(np.float32)
        pad = size // 2
        return FloatConv(name, source, weight, weight[:, 0, 0, 0].copy(), (stride, stride), (pad,) * 4, **rest)

    def plan() -> LaunchPlan:
        few = conv("few", "input", 3, 3, 21, 1, relu=True)
        shortcut = conv("s", "few", 1, 21, 68, 2, relu=False)
        first = conv("a", "few", 3, 21, 68, 2, relu=True, shortcut=shortcut)
        second = conv("b", "a", 3, 68, 68, 1, relu=True, residual="s")
        head = FloatHead("fc", "b", rng.normal(0, 1, (7, 68)).astype(np.float32), np.ones(7, np.float32))
        return float_plan((9, 13, 3), [few, first, second], head, ARCHITECTURES["sm_53"])

    return Witness(name, plan, lambda: rng.normal(0, 1, (2, 9, 13, 3)).astype(np.float32))


def block(name: str, height: int, width: int, inputs: int, outputs: int) -> Case:
    """A strided convolution with a shortcut, and a residual addition."""
    net = NetworkBuilder(name, signed(height, width, inputs))
    shortcut = net.conv(net.start, outputs, (1, 1), (2, 2), NONE, output=SIGNED)
    hidden = net.conv(net.start, outputs, stride=(2, 2), output=SIGNED)
    branch = net.conv(hidden, outputs, output=SIGNED)
    return net.observe(net.add(branch, shortcut, multipliers=(1, 1), shift=1))


def one(name: str, height: int, width: int, inputs: int, outputs: int) -> Case:
    """One 3x3 convolution."""
    net = NetworkBuilder(name, signed(height, width, inputs))
    return net.observe(net.conv(net.start, outputs, output=SIGNED))


def planes(name: str, height: int, width: int, inputs: int, outputs: int) -> Case:
    """Weights of bases and of two bits: on an image, with a residual, in a dense layer."""
    net = NetworkBuilder(name, signed(height, width, inputs))
    narrow = TensorType((1, 1, 1), bits=2, signed=False, zero_point=1)
    first = net.conv(net.start, outputs, stride=(2, 2), weights=partial(net.binary, bases=3), output=narrow)
    second = net.conv(first, outputs, weights=partial(net.fixed, bits=2), output=narrow)
    return net.observe(net.add(second, first, multipliers=(1, 1), shift=1))


def only_rescale() -> Case:
    net = NetworkBuilder("only-rescale", signed(1, 1, 3))
    net.rescale(net.start, SIGNED, "multiplier")
    return net.finish()


def only_pool() -> Case:
    net = NetworkBuilder("only-pool", signed(5, 3, 9))
    net.average(net.start, (5, 3))
    return net.finish()


def only(name: str, height: int, width: int, append: Callable[[NetworkBuilder, str], str]) -> Case:
    """One layer that reads the image and whose 8-bit tensor leaves the network, both packed."""
    net = NetworkBuilder(f"only-{name}", signed(height, width, 3, zero_point=9))
    return net.finish_as(Embedding(), append(net, net.start))


WITNESSES = {
    "direct": (
        integer(BY_NAME["conv-3x3-odd-signed"], "sm_87", DIRECT),
        integer(residual_block("table"), "sm_53", DIRECT),
        integer(BY_NAME["raw-conv"], "sm_87", DIRECT),
        integer(block("many-inputs", 5, 4, 150, 20), "sm_53", DIRECT),
        integer(block("odd-outputs", 7, 5, 9, 9), "sm_53", DIRECT),
        integer(BY_NAME["conv-3x3-image-unsigned"], "sm_53", DIRECT),
    ),
    "winograd": (
        integer(one("odd-map", 5, 7, 17, 19), "sm_53", WINOGRAD),
        integer(block("shortcut", 10, 10, 12, 36), "sm_53", WINOGRAD),
        integer(one("wide", 5, 5, 200, 12), "sm_53", WINOGRAD),
        joined(block("shortcut", 10, 10, 12, 36), "sm_53", WINOGRAD),
    ),
    "tensor": (
        integer(block("tensor", 7, 5, 16, 16), "sm_87", TENSOR),
        integer(residual_block("table"), "sm_87", TENSOR),
    ),
    "popc": (
        integer(planes("planes", 7, 5, 3, 21), "sm_53", POPC),
        integer(planes("many-planes", 8, 8, 62, 62), "sm_53", IN_PASSES),
        integer(BY_NAME["first-dense-bases"], "sm_53", POPC),
        integer(BY_NAME["binary8-wide"], "sm_87", POPC),
    ),
    "pool_dense": (
        integer(BY_NAME["average-pool-whole-signed"], "sm_53", DIRECT),
        integer(only_pool(), "sm_53", DIRECT),
        integer(BY_NAME["dense-table"], "sm_53", DIRECT),
    ),
    "baselines/float32": (floats("floats", float_plan), floats("the paper's floats", paper_float_plan)),
    "baselines/paper": (
        integer(one("paper", 5, 7, 17, 19), "sm_53", paper.KERNELS),
        integer(one("paper-tiled", 5, 7, 17, 19), "sm_53", paper.BASELINE),
        integer(one("paper-printed", 5, 7, 17, 40), "sm_53", paper.AS_PRINTED),
        integer(block("paper-block", 9, 7, 9, 13), "sm_53", paper.KERNELS),
        integer(BY_NAME["conv-3x3-image-unsigned"], "sm_53", paper.KERNELS),
        integer(BY_NAME["conv-3x3-image-unsigned"], "sm_53", paper.BASELINE),
        integer(BY_NAME["conv-7x7-stride2-unsigned"], "sm_53", paper.KERNELS),
    ),
    "elementwise": (
        integer(BY_NAME["rescale-table"], "sm_53", DIRECT),
        integer(only_rescale(), "sm_53", DIRECT),
        integer(BY_NAME["product-table"], "sm_53", ALL),
        integer(BY_NAME["lookup-signed8-channel"], "sm_53", ALL),
    ),
    "grouped": (
        integer(BY_NAME["conv-3x3-groups4-signed"], "sm_53", ALL),
        integer(only("groups", 5, 4, lambda net, x: net.conv(x, 6, groups=3, output=SIGNED)), "sm_53", ALL),
        integer(BY_NAME["binary8-wide"], "sm_87", ALL),
    ),
    "pool": (
        integer(BY_NAME["max-pool-3x3-padded-signed"], "sm_53", ALL),
        integer(BY_NAME["average-pool-1x3-unsigned"], "sm_53", ALL),
        integer(only("pool", 6, 5, lambda net, x: net.pool(MaxPool, x, (3, 3), (2, 1), SAME)), "sm_53", ALL),
    ),
    "rearrange": (
        integer(BY_NAME["concat"], "sm_53", ALL),
        integer(BY_NAME["pad-both"], "sm_53", ALL),
        integer(only("pad", 3, 2, lambda net, x: net.pad(x, (1, 0, 2, 1), (2, 1))), "sm_53", ALL),
        integer(only("slice", 5, 4, lambda net, x: net.slice(x, (1, 0, 1), (5, 4, 3), (2, 1, 1))), "sm_53", ALL),
    ),
    "resize": (
        integer(only("resize", 5, 4, lambda net, x: net.bilinear(x, (3, 7), "half_pixel")), "sm_53", ALL),
        integer(BY_NAME["bilinear-half_pixel-10x12"], "sm_53", ALL),
    ),
}
WITNESSES["include"] = (*WITNESSES["elementwise"], *WITNESSES["direct"])  # the headers that kernels share

ROUNDING = {
    form: tuple(integer(BY_NAME[name], "sm_53", DIRECT, 64) for name in names)
    for form, names in {
        "MULTIPLIER": ("ties-dense-far", "ties-conv-far"),
        "TABLE": ("ties-table-any-dense",),
        "LINE": ("ties-dense-gentle", "ties-conv-gentle"),
        "CONVERTED_LINE": ("ties-dense-converted", "ties-conv-converted"),
        "FINE_LINE": ("ties-dense-fine", "ties-conv-fine"),
        "SHIFTED_LINE": ("ties-table-line-dense",),
        "ADD": ("ties-add-three-quarters", "ties-add-both"),
    }.items()
}
"""Cases with exact ties, by the form of requantize.cuh that they run; ADD: the residual addition."""
