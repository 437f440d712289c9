"""Layers that a network does not call: what they read and give passes no hook, so it could not be rounded.

PyTorch's multi-head attention and torchvision's Swin compute with the weights of a layer without calling it.
"""

import json
from collections.abc import Iterable, Mapping
from functools import partial

import torch
from torch import nn
from torch.utils.hooks import RemovableHandle

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.simulate.formats import Float32
from edgemeta.toolchain.simulate.rules import ROLES, Rule, Rules


def check_attention(model: nn.Module, rules: Rules) -> None:
    """Raise SimulateError if a rule rounds the layer of a multi-head attention, which is never called."""
    layers = {
        f"{name}.out_proj" if name else "out_proj"
        for name, module in model.named_modules()
        if isinstance(module, nn.MultiheadAttention)
    }
    formats = {layer: rules.formats_of(layer) for layer in layers}
    rounded = {layer for layer in layers if any(not isinstance(kind, Float32) for kind in formats[layer].values())}
    if rounded:
        names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
        raise SimulateError(_sentence("PyTorch's MultiheadAttention", rounded, names, ROLES))


def watch_first_pass(model: nn.Module, layers: Mapping[str, tuple[nn.Module, nn.Module]], names: Iterable[str]) -> None:
    """Watch a network's first forward pass, which raises a SimulateError at its end if it did not call one of `layers`.

    layers: those in which more than the weights is rounded, with the quantizers of their weights, by whose use a layer
    that was not called is told from one that was skipped. names: of all layers. Afterwards the network has no hooks of
    this any more. A compiled network is not watched.
    """
    _FirstPass(model, layers, names)


class _FirstPass:
    """What the hooks of the first pass saw: layers that were called, and layers whose weights were read."""

    def __init__(
        self, model: nn.Module, layers: Mapping[str, tuple[nn.Module, nn.Module]], names: Iterable[str]
    ) -> None:
        self._names = tuple(names)
        self._called: set[str] = set()
        self._read: set[str] = set()
        self._handles: list[RemovableHandle] = [model.register_forward_hook(self._end)]
        for name, (layer, weight) in layers.items():
            for module, seen in ((layer, self._called), (weight, self._read)):
                self._handles.append(module.register_forward_pre_hook(partial(_note, seen, name)))

    def _end(self, _model: nn.Module, _inputs: object, _output: object) -> None:
        if torch.compiler.is_compiling():
            return
        for handle in self._handles:
            handle.remove()
        if left_out := self._read - self._called:
            raise SimulateError(_sentence("the network", left_out, self._names, ("activation", "gradient")))


def _note(seen: set[str], name: str, _module: nn.Module, _inputs: object) -> None:
    if not torch.compiler.is_compiling():
        seen.add(name)


def _sentence(who: str, layers: set[str], names: Iterable[str], roles: Iterable[str]) -> str:
    """What was found, and the rule that is expected; its patterns cover these layers and no other one of `names`."""
    first, *others = sorted(layers)
    which = f"layer {first} and {len(others)} more" if others else f"layer {first}"
    patterns = list(dict.fromkeys(_pattern(layer, layers, names) for layer in (first, *others)))
    entries = ", ".join(f"{role}: float32" for role in roles)
    return (
        f"{who} computes with the weights of {which} without a call, so what goes in and out there cannot be rounded; "
        f"expected a last rule {{layers: {json.dumps(patterns)}, {entries}}}"
    )


def _pattern(layer: str, layers: set[str], names: Iterable[str]) -> str:
    """`*.` and the last two parts of the name, if that is enough; else the name."""
    short = ".".join(["*", *layer.split(".")[-2:]])
    rule = Rule(layers=(short,))
    return short if rule.covers(layer) and all(name in layers for name in names if rule.covers(name)) else layer
