"""A layer whose weights are rounded when it computes with them, under their own name.

The layer gets a subclass of its class, whose `weight` is a property. In a forward pass it is the rounded tensor, at any
other time the parameter: optimizers, checkpoints, initializers and scripts find the layer as they know it.
"""

from functools import cache, partial
from typing import Any, ClassVar
from weakref import WeakSet

import torch
from torch import Tensor, nn
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook

from edgemeta.toolchain.simulate.layers import originals
from edgemeta.toolchain.simulate.quantizer import Quantizer, StepCounter

QUANTIZERS = "simulated"
"""Attribute of each prepared layer: a ModuleDict of its quantizers by role."""


def watch_passes(module: nn.Module, steps: StepCounter) -> None:
    """Have `steps` know when the module computes: from then on `weight` is rounded."""
    module.register_forward_pre_hook(partial(_enter, steps), prepend=True)
    module.register_forward_hook(partial(_leave, steps), always_call=True)


def round_weight(layer: nn.Module, steps: StepCounter) -> None:
    """Have the layer compute with the weights that its quantizer gives. Other parametrizations come first."""
    kind: Any = type(layer)
    layer.__class__ = _rounding_class(kind)
    watch_passes(layer, steps)


def _enter(steps: StepCounter, _module: nn.Module, _inputs: object) -> None:
    steps.passes += 1


def _leave(steps: StepCounter, _module: nn.Module, _inputs: object, _output: object) -> None:
    steps.passes -= 1


class _RoundedWeight(nn.Module):
    """What a layer's class is mixed with."""

    def __reduce_ex__(self, _protocol: Any) -> Any:
        """By the class of the layer, as its subclass is made while the program runs."""
        reduced: Any = super().__reduce_ex__(2)
        return (_restored, (type(self).__mro__[2],), *reduced[2:])


@cache
def _rounding_class(base: Any) -> type[nn.Module]:
    """The subclass of a layer's class."""
    given: Any = getattr(base, "weight", None)
    parametrized = given if isinstance(given, property) else None

    def weight(layer: Any) -> Tensor:
        found: Tensor
        if "weight" in layer.__dict__:  # as pruning and DataParallel put it there
            found = layer.__dict__["weight"]
        elif parametrized is not None:
            found = parametrized.__get__(layer)
        else:
            found = nn.Module.__getattr__(layer, "weight")  # type: ignore[assignment]
        quantizer = getattr(layer, QUANTIZERS).weight
        rounded: Tensor = quantizer(found) if quantizer.steps.passes else found
        return rounded

    def put(layer: Any, value: Tensor) -> None:
        if parametrized is not None:
            parametrized.__set__(layer, value)
        else:
            layer.__dict__["weight"] = value

    def drop(layer: Any) -> None:
        del layer.__dict__["weight"]

    names = {"weight": property(weight, put, drop), "__module__": base.__module__, "__qualname__": base.__qualname__}
    return type(base.__name__, (_RoundedWeight, base), names)


def _restored(base: Any) -> nn.Module:
    made = _rounding_class(base)
    return made.__new__(made)


class WeightGradient:
    """A layer whose weights' gradient is rounded before an optimizer reads it; copies of the layer are, too."""

    _all: ClassVar[WeakSet["WeightGradient"]] = WeakSet()

    def __init__(self, layer: nn.Module, quantizer: Quantizer) -> None:
        self._layer, self._quantizer = layer, quantizer
        self._all.add(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A copy's or a file's."""
        self.__dict__.update(state)
        self._all.add(self)

    @classmethod
    def round_before_step(cls, optimizer: Optimizer, _args: object, _kwargs: object) -> None:
        """Before a step: after the workers' gradients were averaged, so that all round the same one."""
        if not cls._all:
            return
        quantizers = {id(originals(each._layer)[0]): each._quantizer for each in cls._all}
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                quantizer = quantizers.get(id(parameter))
                if quantizer is not None and parameter.grad is not None:
                    with torch.no_grad():
                        parameter.grad.copy_(quantizer(parameter.grad))


register_optimizer_step_pre_hook(WeightGradient.round_before_step)
