"""Small networks on the emulation with every access checked, for tests of a kernel for single layers."""

from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES
from edgemeta.kernels.cuda.plan.launch_plan import LaunchPlan
from edgemeta.model import reference
from tests.conformance.networks import Case, assert_equal_outputs
from tests.emulation.executor import Emulator


def assert_exact(case: Case, architecture: str = "sm_53") -> LaunchPlan:
    """Equal to the reference in a shuffled order of threads, without an error; returns the plan."""
    plan = lower(case.model, ARCHITECTURES[architecture])
    emulator = Emulator(plan, 5, "checked")
    for name, batch in case.batches():
        assert_equal_outputs(emulator.run(batch), reference.run(case.model, batch), name)
    return plan
