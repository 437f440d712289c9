"""The student's targets: what its teachers say of an image, or of the very view that the student sees."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.toolchain.train.batches import mixed_precision

Target: TypeAlias = Callable[[NDArray[np.int64], Tensor], Tensor]
"""Gives the teachers' logits, float [B, classes], for the numbers of images and the network input of their views."""

_WORTH_COMPILING = 5000
"""Batches from which on the teachers are compiled."""


def stored_target(logits: NDArray[np.float32]) -> Target:
    """The row of each image, whatever its view; logits: float32 [N, classes]."""
    stored = torch.from_numpy(logits)
    return lambda index, _: stored[index]


def live_target(teachers: Sequence[nn.Module], batches: int) -> Target:
    """The mean of the teachers' logits of the view itself, which will be asked for so many batches.

    For many batches the teachers, half of the work of a student's step, are compiled: that takes a minute and a C++
    compiler, and then 0.6 of the time.
    """
    networks = [teacher.eval() for teacher in teachers]
    if batches >= _WORTH_COMPILING:
        networks = [torch.compile(teacher) for teacher in networks]  # type: ignore[misc]

    def target(_: NDArray[np.int64], x: Tensor) -> Tensor:
        with torch.no_grad(), mixed_precision():
            return torch.stack([network(x).float() for network in networks]).mean(0)

    return target
