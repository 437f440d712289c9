"""One tensor of a network under one number format: finds the scale, rounds, and lets the gradient through."""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, distributed, nn

from edgemeta.kernels.simulate.library import BINS
from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.number_formats.formats import Block, Integer
from edgemeta.toolchain.number_formats.rounding import Rounding
from edgemeta.toolchain.simulate.definition import block_view
from edgemeta.toolchain.simulate.observers import histogram, range_of_channels, range_of_histogram
from edgemeta.toolchain.simulate.operators import FIRST, STEP, STRIDE, TENSOR, finite_range, grid_key, round_tensor
from edgemeta.toolchain.simulate.scales import (
    Scalable,
    Scales,
    block_scales,
    constant_scales,
    grid_of,
    needs_range,
    scales,
)

Role = Literal["activation", "weight", "gradient", "weight_gradient"]

MOMENTUM = 0.1
"""Weight of the newest range in a moving average."""


COUNTER = "simulation_counter"
"""Name of the buffer of a prepared network that holds its seed and its step."""


class StepCounter:
    """What all quantizers of a network share: seed, step, and which rows of the whole batch this worker has.

    The step is the number of forward passes in training; seed and step are a buffer of the network, saved with it. Rows
    are dealt in turns, as PyTorch's DistributedSampler does: worker r of W has the rows r, r + W, r + 2 W …. passes: of
    the network and its layers, that have begun and not ended.
    """

    def __init__(self, network: nn.Module, seed: int) -> None:
        self._network = network
        self.passes = 0
        network.register_buffer(COUNTER, torch.tensor([seed, 0, 0, 0, 1], dtype=torch.int64))
        network.register_load_state_dict_pre_hook(_keep_counter)  # type: ignore[no-untyped-call]

    @property
    def counter(self) -> Tensor:
        """Int64 [5], of the network's first tensor for a single worker."""
        counter: Tensor = getattr(self._network, COUNTER)
        return counter

    def advance(self) -> None:
        """Begin a step of the training."""
        self.counter[STEP] += 1

    def counter_of(self, tensor: int, in_rows: bool) -> Tensor:
        """The counter, int64 [5], for a tensor; in_rows: each worker has some rows of it, rather than the whole."""
        counter = self.counter.clone()
        counter[TENSOR] = tensor
        if in_rows and distributed.is_initialized():
            counter[FIRST], counter[STRIDE] = distributed.get_rank(), distributed.get_world_size()
        return counter


def _keep_counter(network: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
    """A checkpoint of a network in float32 leaves seed and step as they are."""
    state.setdefault(prefix + COUNTER, getattr(network, COUNTER))


@dataclass(frozen=True)
class Roundings:
    """How to round in training and in evaluation."""

    training: Rounding = "stochastic"
    evaluation: Rounding = "nearest_even"


@dataclass
class Statistics:
    """Elements that were rounded, limited, and rounded to zero though they were not zero; the range of the tensor."""

    elements: int = 0
    limited: int = 0
    flushed: int = 0
    least: float = 0.0
    greatest: float = 0.0

    def widen(self, least: float, greatest: float) -> None:
        """Take in the range of further elements, before they are counted."""
        first = self.elements == 0
        self.least = least if first else min(self.least, least)
        self.greatest = greatest if first else max(self.greatest, greatest)


class Quantizer(nn.Module):
    """Rounds a tensor to a format.

    role: an activation of integers takes its range from an observer, which learns in training; every other tensor
    is measured when it is rounded. number: of the tensor, for random words. axis: the one of channels, for a scale
    of each or for blocks; negative ones count from the last. channels: their number. Data-parallel workers agree on
    ranges of activations and gradients. statistics: collected while it is not None. keeps: whether the last result
    is kept for `take`.
    """

    ends: Tensor
    observed: Tensor
    histogram: Tensor

    def __init__(
        self,
        kind: Scalable | Block,
        role: Role,
        roundings: Roundings,
        steps: StepCounter,
        number: int,
        axis: int = 1,
        channels: int = 1,
    ) -> None:
        super().__init__()
        self.kind, self.role, self.roundings, self.number = kind, role, roundings, number
        self.statistics: Statistics | None = None
        self.keeps = False
        self._kept: tuple[Tensor, Tensor] | None = None
        self.steps = steps
        self._key = grid_key(grid_of(kind))
        self._fields = kind.model_dump_json(exclude_defaults=True)  # here, as compilers do not see through it
        self._per_channel = isinstance(kind, Integer) and kind.per_channel
        self._axis, self._block = axis, kind.size if isinstance(kind, Block) else 0
        if self._observes:
            self.register_buffer("ends", torch.zeros(channels if self._per_channel else 1, 2))
            self.register_buffer("observed", torch.zeros((), dtype=torch.bool))
            if self._counts_elements:
                self.register_buffer("histogram", torch.zeros(BINS, dtype=torch.int64))

    def _load_from_state_dict(self, state: dict[str, Any], prefix: str, *others: Any) -> None:
        """A checkpoint of a network in float32 leaves the observed range as it is."""
        for name, buffer in self.named_buffers():
            state.setdefault(prefix + name, buffer)
        super()._load_from_state_dict(state, prefix, *others)

    @property
    def _observes(self) -> bool:
        return self.role == "activation" and isinstance(self.kind, Integer)

    @property
    def _counts_elements(self) -> bool:
        return isinstance(self.kind, Integer) and self.kind.counts_elements

    def _axis_of(self, x: Tensor) -> int:
        return self._axis % max(1, x.ndim)

    def _by_channel(self, x: Tensor) -> Tensor:
        """[channels, elements]."""
        axis = self._axis_of(x)
        return x.transpose(0, axis).reshape(x.shape[axis], -1)

    @property
    def _in_rows(self) -> bool:
        return self.role in ("activation", "gradient")

    def forward(self, x: Tensor) -> Tensor:
        """The tensor [...] in the format. Raises SimulateError for a range that was never observed.

        A tensor of another type is rounded as float32. The result has its type again; but under autocast a layer's
        operands stay float32, and the layer casts them as it does without rules.
        """
        if x.dtype != torch.float32:
            y: Tensor = self(x.float())
            keeps_float32 = self.role in ("activation", "weight") and torch.is_autocast_enabled(x.device.type)
            return y if keeps_float32 else y.to(x.dtype)
        found = self._scales_for(x)
        rounding = self.roundings.training if self.training else self.roundings.evaluation
        counter = self.steps.counter_of(self.number, self._in_rows)
        y, inside = round_tensor(
            x, found.scale, found.lowest, found.highest, counter, self._key, rounding, self._axis_of(x), self._block
        )
        if self.statistics is not None:
            self._count(self.statistics, x.detach(), y.detach(), inside)
        if self.keeps:
            self._kept = y.detach(), found.scale * 2.0 ** grid_of(self.kind).quantum
        return y

    def take(self) -> tuple[Tensor, Tensor]:
        """The last result, and the step of which it has multiples, float32 [1 or channels]; it is kept no longer."""
        assert self._kept is not None, "a quantizer that keeps its result, after its forward"
        kept, self._kept = self._kept, None
        return kept

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return x as in evaluation, as whole numbers int64, and the scale of one, float64 [1 or channels].

        For formats that are multiples of one step: integers (less the zero point), fixed point and powers of two.
        """
        rounding = self.roundings.evaluation
        found = self._scales_for(x)
        counter = self.steps.counter_of(self.number, self._in_rows)
        y, _ = round_tensor(
            x, found.scale, found.lowest, found.highest, counter, self._key, rounding, self._axis_of(x), self._block
        )
        step = found.scale.to(torch.float64) * 2.0 ** grid_of(self.kind).quantum
        shape = [-1 if axis == self._axis_of(x) else 1 for axis in range(x.ndim)]
        return torch.round(y.to(torch.float64) / step.reshape(shape)).to(torch.int64), step

    def trained_scales(self) -> Scales:
        """The scales of an activation of integers, from the range that was observed in training."""
        if not self._observes or not self.observed:
            raise SimulateError(
                "found an activation whose range was never observed, expected a step of training, or a saved network"
            )
        assert isinstance(self.kind, Integer)
        return scales(self.kind, self.ends)

    def _scales_for(self, x: Tensor) -> Scales:
        if isinstance(self.kind, Block):
            return block_scales(self.kind, block_view(x.detach(), self._axis_of(x)))
        if needs_range(self.kind):
            return scales(self.kind, self._ends_for(x))
        if torch.compiler.is_compiling():
            return scales(self.kind, x.new_zeros(1, 2))
        return constant_scales(self.kind, x.device)

    def _ends_for(self, x: Tensor) -> Tensor:
        if not self._observes:
            return self._measured(x.detach())
        if self.training:
            self._observe(x.detach())
        elif not torch.compiler.is_compiling() and not self.observed:
            raise SimulateError(
                "found an activation whose range was never observed, expected a step of training, or a saved network"
            )
        ends: Tensor = self.ends
        return ends

    def _observe(self, x: Tensor) -> None:
        """Widen the range, move its average, or find it again from all elements so far."""
        if self._counts_elements:
            self.histogram.add_(self._counted(x))
            self.ends.copy_(range_of_histogram(self.histogram, self._fields))
        else:
            self._widen(self._measured(x))
        self.observed.fill_(True)

    def _widen(self, ends: Tensor) -> None:
        if isinstance(self.kind, Integer) and self.kind.observer == "moving_average":
            wider = self.ends + MOMENTUM * (ends - self.ends)
        else:
            least = torch.minimum(self.ends[:, 0], ends[:, 0])
            wider = torch.stack((least, torch.maximum(self.ends[:, 1], ends[:, 1])), 1)
        self.ends.copy_(torch.where(self.observed, wider, ends))

    def _counted(self, x: Tensor) -> Tensor:
        """The histogram of x over all workers."""
        counts: Tensor = histogram(x)
        if distributed.is_initialized():
            distributed.all_reduce(counts)
        return counts

    def _measured(self, x: Tensor) -> Tensor:
        """Least and greatest value to represent, float32 [1 or channels, 2], over all workers.

        The least and greatest finite element, or what the observer says that needs all elements.
        """
        ends: Tensor
        if self._counts_elements and self._in_rows:
            ends = range_of_histogram(self._counted(x), self._fields)
            return ends
        if self._counts_elements:
            channels = self._by_channel(x) if self._per_channel else x.reshape(1, -1)
            ends = range_of_channels(channels, self._fields)
            return ends
        if self._per_channel:
            channels = self._by_channel(x)
            finite = channels.isfinite()
            least = torch.where(finite, channels, torch.inf).amin(1)
            greatest = torch.where(finite, channels, -torch.inf).amax(1)
            ends = torch.stack((least, greatest), 1)
            ends = torch.where((least <= greatest).unsqueeze(1), ends, 0.0)
        else:
            ends = finite_range(x).reshape(1, 2)
        if self._in_rows and distributed.is_initialized():
            both = torch.stack((-ends[:, 0], ends[:, 1]))
            distributed.all_reduce(both, distributed.ReduceOp.MAX)
            ends = torch.stack((-both[0], both[1]), 1)
        return ends

    @staticmethod
    def _count(statistics: Statistics, x: Tensor, y: Tensor, inside: Tensor) -> None:
        statistics.widen(*finite_range(x).tolist())
        bits = inside.unsqueeze(1) >> torch.arange(8, dtype=torch.uint8, device=inside.device) & 1
        statistics.elements += x.numel()
        statistics.limited += x.numel() - int(bits.flatten()[: x.numel()].sum())
        statistics.flushed += int(((x != 0) & (y == 0)).sum())

    def extra_repr(self) -> str:
        """Format and role."""
        return f"{self.role}: {self.kind!r}"
