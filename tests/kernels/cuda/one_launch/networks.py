"""Small networks of several phases and several blocks, and the shipped one, as one launch."""

import re
from dataclasses import replace

from edgemeta.kernels.cuda.lowering import KERNELS, lower
from edgemeta.kernels.cuda.one_launch.plan import one_cluster, one_launch
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from tests.conformance.cases import residual_block
from tests.conformance.networks import Case
from tests.emulation.witnesses import BY_NAME, DIRECT, POPC, WINOGRAD, block, planes

MULTIPROCESSORS = 2
"""Of the device that the networks are joined for, so that more blocks than two wait for each other."""

WITNESSES = {
    "winograd": (block("shortcut", 10, 10, 12, 36), "sm_53", WINOGRAD),
    "direct": (block("many-inputs", 5, 4, 150, 20), "sm_53", DIRECT),
    "popc": (planes("planes", 7, 5, 3, 21), "sm_53", POPC),
    "tensor": (residual_block("table"), "sm_87", KERNELS),
    "int4": (BY_NAME["w4a4-residual-block-signed"], "sm_87", KERNELS),
    "cluster": (residual_block("table"), "sm_90", KERNELS),
}
"""Network, architecture and kernels, by the kernel that all of its wider convolutions have, or by the barrier."""


def read_too_early(plan: LaunchPlan) -> LaunchPlan:
    """The plan, in which blocks copy constants after the barrier that should be between copying and reading."""
    (launch,) = plan.launches
    text, count = re.subn(
        r"(  if \(blockIdx\.x < \d+ \* images\) \{\n(?:    copy_ahead.*\n)+  \}\n)(  wait_for_all_blocks\(.*\);\n)",
        r"\2\1",
        launch.source.text,
    )
    assert count > 0
    return replace(plan, launches=(replace(launch, source=replace(launch.source, text=text)),))


def witness(name: str) -> tuple[Case, LaunchPlan]:
    """A network and its plan of one launch."""
    case, architecture, kernels = WITNESSES[name]
    plan = lower(case.model, ARCHITECTURES[architecture], kernels=kernels)
    return case, one_cluster(plan) if name == "cluster" else one_launch(plan, MULTIPROCESSORS)
