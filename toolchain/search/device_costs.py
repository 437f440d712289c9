"""What an image costs on a device, for the goals of a search: measured on this machine, or counted for another."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from edgemeta.kernels.cuda.compile.compiler import Build, Compiler, wheel_compiler
from edgemeta.kernels.cuda.compile.nvrtc import wheel_library
from edgemeta.kernels.cuda.lowering import lower
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Source
from edgemeta.model.graph import Model
from edgemeta.toolchain.proof import missing_proof, proof_installed
from edgemeta.toolchain.search.config import SearchConfig
from edgemeta.toolchain.search.evaluator import Evaluator

DeviceCost = Callable[[Model], float]

NO_NETWORK = 1e9
"""Cost of a choice of which there is no integer network."""


def device_costs(config: SearchConfig, evaluator: Evaluator) -> Mapping[str, DeviceCost]:
    """How to find each cost that the search's goals name. Raises MissingExtraError."""
    known: dict[str, Callable[[], DeviceCost]] = {
        "microseconds": lambda: lambda model: evaluator.microseconds(model, config.backend),
        "warp_instructions": lambda: warp_instructions(ARCHITECTURES[config.cuda_arch]),
    }
    return {goal: known[goal]() for goal in config.goals or () if goal in known}


def warp_instructions(architecture: Architecture) -> DeviceCost:
    """Counts the instructions that all warps issue for an image, as `edgemeta kernels report` does; needs no GPU.

    The kernels are compiled by the wheel's compiler, each variant once. Raises MissingExtraError.
    """
    with proof_installed("goal warp_instructions"):
        from edgemeta_proof.machine_code.cost import cost
    if wheel_library() is None:
        raise missing_proof("goal warp_instructions")
    compiler = _Remembering(wheel_compiler().tool)

    def counted(model: Model) -> float:
        return float(cost(lower(model, architecture), model, compiler).warp_instructions)

    return counted


@dataclass(frozen=True)
class _Remembering(Compiler):
    """Compiles a variant once: trials share most of theirs."""

    builds: dict[tuple[Source, str], Build] = field(default_factory=dict)

    def build(self, source: Source, architecture: Architecture) -> Build:
        """As Compiler.build."""
        key = source, architecture.name
        if key not in self.builds:
            self.builds[key] = super().build(source, architecture)
        return self.builds[key]
