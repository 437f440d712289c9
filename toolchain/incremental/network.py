"""A PyTorch network of which some weights are frozen at powers of two, and the optimizer's step that keeps them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from edgemeta.model.weights import PowerOfTwoWeights
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.incremental.freezing import Rule, freeze, priorities, release
from edgemeta.toolchain.number_formats.formats import PowerOfTwo
from edgemeta.toolchain.number_formats.rounding import round_to_grid
from edgemeta.toolchain.quantize.exponents import ExponentChoice, least_exponents
from edgemeta.toolchain.quantize.types import encoded
from edgemeta.toolchain.torch_network import TorchNetwork
from edgemeta.toolchain.train.optimizer_step import OptimizerStep

_WIDEST = 16


class Projection:
    """0 or +-2**k for k = n2 .. n1 = n2 - 1 + 2**(b - 2), with b bits, for one layer: `exponents.least_exponents`.

    per_channel: for each output channel; its n2 is at most 16 less than the greatest of the layer.

    The exponents are those of the weights that it is made from, and stay when these are trained on. A weight becomes
    the nearest value; halfway between two powers the greater one, halfway between 0 and 2**n2 it becomes 0; beyond
    2**n1 it becomes 2**n1. `greatest` is 2**n1, `least` 2**n2, both float64 [1] or [O].
    """

    def __init__(self, weights: Tensor, bits: int, exponents: ExponentChoice, *, per_channel: bool = False) -> None:
        self._grid = PowerOfTwo(bits=bits).grid
        rows = weights.detach().double().reshape(len(weights) if per_channel else 1, -1).numpy()
        least = least_exponents(rows, bits, exponents)
        self.bits = bits
        self.least: NDArray[np.float64] = np.ldexp(1.0, np.maximum(least, least.max() - _WIDEST))
        self.greatest = self.least / 2.0**self._grid.quantum
        self._greatest = torch.from_numpy(self.greatest.astype(np.float32)).reshape(-1, *[1] * (weights.ndim - 1))

    def __call__(self, weights: Tensor) -> Tensor:
        """The value of each weight, float32 of the same shape; exact, as scales are powers of two."""
        scaled = weights.detach().float() / self._greatest
        return round_to_grid(scaled, self._grid, "nearest_even") * self._greatest

    def stored(self, values: NDArray[np.float32]) -> PowerOfTwoWeights:
        """Values [O, ...] of this format as the model file has them."""
        least = self.least.reshape(-1, *[1] * (values.ndim - 1))
        return encoded(np.rint(values.astype(np.float64) / least).astype(np.int64), self.bits, self.least)


class PartlyFrozen(nn.Module):
    """A network with masks of its frozen weights, which its state includes, so that a checkpoint has them.

    chain: the network; the weights of its convolutions and of its dense layer are quantized, batch norms and the bias
    are not. projections: by the names of these layers, from the weights that the network has now. per_channel:
    names of convolutions that have exponents for each channel. bits: of all weights, or by names of layers.
    """

    def __init__(
        self,
        chain: TorchNetwork,
        bits: int | Mapping[str, int],
        exponents: ExponentChoice,
        per_channel: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self.chain = chain
        self._weights: Mapping[str, Tensor] = {
            name: each.weight for name, each in chain.named_modules() if isinstance(each, nn.Conv2d | nn.Linear)
        }
        own = {chain.module_names[name] for name in per_channel}
        if isinstance(bits, int):
            widths = dict.fromkeys(self._weights, bits)
        else:
            widths = {chain.module_names.get(name, name): width for name, width in bits.items()}
            for name in widths.keys() ^ self._weights.keys():
                raise QuantizeError(
                    f"layer {name!r} is not both in the network and in the widths, expected the same layers"
                )
        self.projections = {
            name: Projection(weight, widths[name], exponents, per_channel=name in own)
            for name, weight in self._weights.items()
        }
        for name, weight in self._weights.items():
            self.register_buffer(f"frozen_{name}", torch.zeros_like(weight, dtype=torch.bool))
            self.register_buffer(f"released_{name}", torch.zeros_like(weight, dtype=torch.bool))

    def forward(self, x: Tensor) -> Any:
        """As `TorchNetwork.forward`."""
        return self.chain(x)

    def freeze(self, share: float, rule: Rule, random: np.random.Generator) -> None:
        """Freeze more weights of every layer, until it has this share of them (`freezing.freeze`)."""
        for name, weight in self._weights.items():
            projected = self.projections[name](weight)
            priority = priorities(rule, _array(weight), _array(projected), random)
            frozen = freeze(_mask(self._frozen(name)), share, priority)
            self._hold(name, torch.from_numpy(frozen), projected)

    def release(self, probability: float, random: np.random.Generator) -> None:
        """Release each frozen weight with this probability, until `refreeze`."""
        for name in self._weights:
            released = torch.from_numpy(release(_mask(self._frozen(name)), probability, random))
            self._released(name).copy_(released)
            self._frozen(name).logical_and_(~released)

    def refreeze(self) -> None:
        """Freeze what was released, at the power of two that is nearest now."""
        for name, weight in self._weights.items():
            frozen = self._frozen(name) | self._released(name)
            self._released(name).zero_()
            self._hold(name, frozen, self.projections[name](weight))

    def _hold(self, name: str, frozen: Tensor, projected: Tensor) -> None:
        """Set the mask of a layer, and its frozen weights to their powers of two."""
        self._frozen(name).copy_(frozen)
        with torch.no_grad():
            self._weights[name].copy_(torch.where(self._frozen(name), projected, self._weights[name]))

    @property
    def held(self) -> list[tuple[Tensor, Tensor]]:
        """Each quantized weight [O, ...] with the mask of its frozen elements, bool [O, ...]."""
        return [(weight, self._frozen(name)) for name, weight in self._weights.items()]

    def _frozen(self, name: str) -> Tensor:
        return self.get_buffer(f"frozen_{name}")

    def _released(self, name: str) -> Tensor:
        return self.get_buffer(f"released_{name}")


class FrozenStep(OptimizerStep):
    """A step that moves no frozen weight, by gradient, momentum or decay."""

    def __init__(self, optimizer: torch.optim.Optimizer, network: PartlyFrozen) -> None:
        super().__init__(optimizer)
        self._network = network

    def take(self, loss: Tensor) -> None:
        """Change the parameters by the gradient of the loss, a scalar; frozen weights gather no momentum either."""
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        kept = []
        for weight, frozen in self._network.held:
            if weight.grad is not None:
                weight.grad.masked_fill_(frozen, 0.0)
            kept.append(weight.detach().clone())
        self.optimizer.step()
        with torch.no_grad():
            for (weight, frozen), before in zip(self._network.held, kept, strict=True):
                weight.copy_(torch.where(frozen, before, weight))


def _array(tensor: Tensor) -> NDArray[np.float32]:
    array: NDArray[np.float32] = tensor.detach().float().contiguous().numpy()
    return array


def _mask(tensor: Tensor) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = tensor.contiguous().numpy()
    return mask
