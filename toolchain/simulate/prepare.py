"""Puts a PyTorch network under rules: its modules stay, and round what they read and write.

A layer that has weights reads its activation in one format and its weights in another, and its backward pass reads the
gradient in a third: every operand of its products is rounded. Sums are float32, unless a rule gives an accumulator. A
network with products elsewhere is refused (`calls`), unless a rule leaves them in float32.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.number_formats.formats import Block, Float32
from edgemeta.toolchain.simulate.accumulate import Accumulation, check_accumulator
from edgemeta.toolchain.simulate.calls import check_attention, watch_first_passes
from edgemeta.toolchain.simulate.layers import channels, check_layer, layers_of, rounds
from edgemeta.toolchain.simulate.quantizer import COUNTER, Quantizer, Role, StepCounter
from edgemeta.toolchain.simulate.rounded_weight import QUANTIZERS, WeightGradient, round_weight, watch_passes
from edgemeta.toolchain.simulate.rules import Rules, load_rules


def prepare(model: nn.Module, rules: Rules | Path | Mapping[str, Any]) -> nn.Module:
    """Put the network under rules, in place, and return it.

    Parameters stay the same objects under the same names, so an optimizer may be made before or after, and a checkpoint
    of the network in float32 may be loaded. Raises SimulateError for rules that match no layer, for modules that cannot
    be rounded, and for a network that was prepared before; the first forward passes in training and in evaluation raise
    it for products that the network computes past its layers.
    """
    if not isinstance(rules, Rules):
        rules = load_rules(rules)
    if hasattr(model, COUNTER):
        raise SimulateError("this network is prepared already, expected one that is not")
    layers = layers_of(model, rules)
    check_attention(model, rules)
    for name, layer in layers.items():
        check_layer(name, layer, rules.formats_of(name))
    steps = StepCounter(model, rules.seed)
    watch_passes(model, steps)
    number = 0
    for name, layer in layers.items():
        quantizers: dict[str, Quantizer] = {}
        for role, kind in rules.formats_of(name).items():
            number += 1
            if rounds(layer, role, kind):
                of_channels = channels(layer, role, isinstance(kind, Block))
                quantizers[role] = Quantizer(kind, role, rules.roundings, steps, number, *of_channels)  # type: ignore[arg-type]
        _attach(layer, quantizers, _accumulator_of(rules, name, layer), steps)
    watch_first_passes(model, layers, rules)
    model.register_forward_pre_hook(partial(_advance, steps))
    return model


def quantizers_of(model: nn.Module) -> dict[tuple[str, Role], Quantizer]:
    """All quantizers of a prepared network, by the names of layer and role."""
    return {
        (_layer_of(name), module.role): module
        for name, module in model.named_modules()
        if isinstance(module, Quantizer)
    }


@contextmanager
def rounded_weights(model: nn.Module) -> Iterator[None]:
    """While it lasts, `weight` of a prepared network's layers is what they compute with, not the parameter."""
    shared = {quantizer.steps for quantizer in quantizers_of(model).values()}
    for steps in shared:
        steps.passes += 1
    try:
        yield
    finally:
        for steps in shared:
            steps.passes -= 1


def accumulations_of(model: nn.Module) -> dict[str, Accumulation]:
    """All accumulators of a prepared network, by the names of their layers."""
    return {_layer_of(name): module for name, module in model.named_modules() if isinstance(module, Accumulation)}


def _layer_of(part: str) -> str:
    """The layer that a quantizer or an accumulator belongs to."""
    return part.rpartition(QUANTIZERS)[0].removesuffix(".")


def _accumulator_of(rules: Rules, name: str, layer: nn.Module) -> Accumulation | None:
    found = rules.accumulator_of(name)
    if found is None:
        return None
    place, kind = found
    if isinstance(kind, Float32):
        return None
    check_accumulator(place, name, layer, rules.formats_of(name))
    return Accumulation(kind)


def _attach(
    layer: nn.Module, quantizers: dict[str, Quantizer], accumulator: Accumulation | None, steps: StepCounter
) -> None:
    parts: dict[str, nn.Module] = {**quantizers} if accumulator is None else {**quantizers, "accumulator": accumulator}
    layer.add_module(QUANTIZERS, nn.ModuleDict(parts))
    if "weight" in quantizers:
        round_weight(layer, steps)
    if "activation" in quantizers:
        layer.register_forward_pre_hook(partial(_round_input, quantizers["activation"]), with_kwargs=True)
    if accumulator is not None:
        operands = quantizers["activation"], quantizers["weight"]
        for quantizer in operands:
            quantizer.keeps = True
        layer.register_forward_hook(partial(_hold_sums, accumulator, *operands))
    if "gradient" in quantizers:
        layer.register_forward_hook(partial(_round_gradient, quantizers["gradient"]))
    if "weight_gradient" in quantizers:
        layer.simulated_weight_gradient = WeightGradient(layer, quantizers["weight_gradient"])  # type: ignore[assignment]


def _round_input(
    quantizer: Quantizer, _layer: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if inputs:
        return (quantizer(inputs[0]), *inputs[1:]), named
    return inputs, {**named, "input": quantizer(named["input"])}


def _hold_sums(
    accumulator: Accumulation,
    activation: Quantizer,
    weight: Quantizer,
    layer: nn.Module,
    _inputs: tuple[Tensor, ...],
    output: Tensor,
) -> Tensor:
    held: Tensor = accumulator(layer, output, activation, weight)
    return held


def _round_gradient(quantizer: Quantizer, _layer: nn.Module, _inputs: tuple[Tensor, ...], output: Tensor) -> None:
    if output.requires_grad:
        output.register_hook(quantizer)  # type: ignore[no-untyped-call]


def _advance(steps: StepCounter, model: nn.Module, _inputs: object) -> None:
    if model.training:
        steps.advance()
