"""What a kernel folder offers to the lowering: ways to run a step, and what each asks of the buffer that it reads."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Launch
from edgemeta.kernels.lowering.steps import Step
from edgemeta.model.layers import Padding, TensorType

Buffers: TypeAlias = Mapping[str, Buffer]
"""The buffer of every tensor that a step reads or writes, by the tensor's name."""

NO_RING: Padding = (0, 0, 0, 0)


@dataclass(frozen=True)
class Tensors:
    """What is known of the tensors before kernels are chosen.

    types: of every tensor by name, "input" included. packed: names of those in the tight layout of the model's input
    and output, which have no ring; a kernel that reads only ringed buffers offers nothing for them.
    """

    types: Mapping[str, TensorType]
    packed: frozenset[str]


@dataclass(frozen=True)
class Candidate:
    """One way to run a step.

    kernel: name of the folder. tile: what was chosen, for reports. ring: padding that it needs around the tensor
    `step.reads[0]`, unless that one is packed. launch: makes the launch, given the buffers with their final rings, at
    least as wide as asked; it packs weights, so it is called for the chosen candidate only.
    """

    kernel: str
    tile: Mapping[str, int]
    ring: Padding
    launch: Callable[[Buffers], Launch]


class Kernel(Protocol):
    """`candidates` of a kernel folder's launch.py: ways to run a step, the best by rule first; none if it cannot."""

    def __call__(self, step: Step, tensors: Tensors, architecture: Architecture, /) -> Iterable[Candidate]:
        """Offer candidates, always in the same order: their places are what tuning stores."""
        ...
