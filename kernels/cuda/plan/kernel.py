"""The interface of kernel folders to the lowering: candidates for a step, with the padding that each requires."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from edgemeta.kernels.cuda.plan.architectures import Architecture
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, Launch
from edgemeta.kernels.lowering.steps import Step
from edgemeta.model.layers import Padding, TensorType

Buffers: TypeAlias = Mapping[str, Buffer]
"""The buffers that a step reads or writes, by tensor name."""

NO_RING: Padding = (0, 0, 0, 0)


@dataclass(frozen=True)
class Tensors:
    """Properties of the tensors that are known before kernels are chosen.

    types: type of every tensor by name, including "input". packed: names of the tensors in the packed layout of the
    model's input and output, without padding; a kernel that needs padded buffers offers no candidate for them.
    """

    types: Mapping[str, TensorType]
    packed: frozenset[str]


@dataclass(frozen=True)
class Candidate:
    """One way to run a step.

    kernel: name of the folder. tile: its tile parameters, for reports. ring: required padding around the tensor
    `step.reads[0]`, unless that is packed. launch: makes the launch from the buffers with their final rings, which are
    at least as wide as required; it packs weights, so it is called for the chosen candidate only. nibbles: tensors that
    may be stored with two channels to a byte (`Buffer.nibbles`).
    """

    kernel: str
    tile: Mapping[str, int]
    ring: Padding
    launch: Callable[[Buffers], Launch]
    nibbles: frozenset[str] = frozenset()


class Kernel(Protocol):
    """`candidates` in launch.py of a kernel folder: ways to run a step, best by rule first; empty if unsupported."""

    def __call__(self, step: Step, tensors: Tensors, architecture: Architecture, /) -> Iterable[Candidate]:
        """Return candidates, always in the same order: tuning stores their indices."""
        ...
