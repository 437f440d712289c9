"""Puts a PyTorch network under rules: its modules stay, and round what they read and write.

A layer that has weights reads its activation in one format and its weights in another, and its backward pass reads the
gradient in a third: every operand of a multiplication is rounded. Sums are float32, unless a rule gives an accumulator.
"""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize
from torch.optim.optimizer import Optimizer, register_optimizer_step_pre_hook
from torch.utils.weak import WeakTensorKeyDictionary

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.simulate.accumulate import Accumulation, check_accumulator
from edgemeta.toolchain.simulate.calls import check_attention, watch_first_pass
from edgemeta.toolchain.simulate.formats import Block, Float32
from edgemeta.toolchain.simulate.quantizer import COUNTER, Progress, Quantizer, Role
from edgemeta.toolchain.simulate.rules import Rules, load_rules

LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d, nn.Linear)
"""Kinds of modules that rules are for."""

_QUANTIZERS = "simulated"
"""Name of what is added to each layer."""

_rounded_gradients = WeakTensorKeyDictionary()
"""Parameters whose gradients are rounded before an optimizer reads them."""


def prepare(model: nn.Module, rules: Rules | Path | Mapping[str, Any]) -> nn.Module:
    """Put the network under rules, in place, and return it.

    The parameters stay the same objects, so an optimizer may be made before or after. Raises SimulateError for rules
    that match no layer, for weights that cannot be rounded, and for a network that was prepared before; the first
    forward pass raises it for a layer with whose weights the network computes without calling it.
    """
    if not isinstance(rules, Rules):
        rules = load_rules(rules)
    if hasattr(model, COUNTER):
        raise SimulateError("this network is prepared already, expected one that is not")
    layers = {name: module for name, module in model.named_modules() if isinstance(module, LAYERS)}
    _check_matches(rules, list(layers))
    check_attention(model, rules)
    for name, layer in layers.items():
        _check_weights(name, layer, rules)
    progress = Progress(model, rules.seed)
    watched: dict[str, tuple[nn.Module, nn.Module]] = {}
    number = 0
    for name, layer in layers.items():
        quantizers: dict[str, Quantizer] = {}
        for role, kind in rules.formats_of(name).items():
            number += 1
            if isinstance(kind, Float32):
                continue
            channels = _channels(layer, role, isinstance(kind, Block))
            quantizers[role] = Quantizer(kind, role, rules.roundings, progress, number, *channels)  # type: ignore[arg-type]
        accumulator = _accumulator_of(rules, name, layer)
        if "weight" in quantizers and not quantizers.keys() <= {"weight", "weight_gradient"}:
            watched[name] = layer, quantizers["weight"]
        _attach(layer, quantizers, accumulator)
    watch_first_pass(model, watched, list(layers))
    model.register_forward_pre_hook(partial(_advance, progress))
    return model


def quantizers_of(model: nn.Module) -> dict[tuple[str, Role], Quantizer]:
    """All quantizers of a prepared network, by the names of layer and role."""
    found: dict[tuple[str, Role], Quantizer] = {}
    for name, module in model.named_modules():
        if isinstance(module, Quantizer):
            layer = name.split(".parametrizations.")[0].removesuffix(f".{_QUANTIZERS}.{module.role}")
            found[layer, module.role] = module
    return found


def accumulations_of(model: nn.Module) -> dict[str, Accumulation]:
    """All accumulators of a prepared network, by the names of their layers."""
    ending = f".{_QUANTIZERS}.accumulator"
    return {
        name.removesuffix(ending): module for name, module in model.named_modules() if isinstance(module, Accumulation)
    }


def unrounded_weight(layer: nn.Module) -> Tensor:
    """The weights of a layer before they are rounded: the optimizer's, or what other parametrizations make of them."""
    originals = _originals(layer)
    if not parametrize.is_parametrized(layer, "weight"):
        return originals[0]
    made: Any = layer.parametrizations.weight  # type: ignore[union-attr]
    others = [each for each in made if not isinstance(each, Quantizer)]
    weight: Tensor = others[0](*originals) if others else originals[0]
    for each in others[1:]:
        weight = each(weight)
    return weight


def _originals(layer: nn.Module) -> list[Tensor]:
    """The parameters of which a layer's weights are made."""
    if not parametrize.is_parametrized(layer, "weight"):
        weight: Any = layer.weight
        return [weight]
    made: Any = layer.parametrizations.weight  # type: ignore[union-attr]
    return [made.original] if made.is_tensor else [getattr(made, f"original{i}") for i in range(made.ntensors)]


def _check_weights(name: str, layer: nn.Module, rules: Rules) -> None:
    """Raise SimulateError for weights that cannot be rounded as the rules want it."""
    roles = {role for role, kind in rules.formats_of(name).items() if not isinstance(kind, Float32)}
    if not roles:
        return
    if "weight" not in layer._parameters and not parametrize.is_parametrized(layer, "weight"):
        raise SimulateError(
            f"the weights of layer {name} are no parameter, as pruning leaves them and the older weight_norm and "
            "spectral_norm of torch.nn.utils, expected that it is made permanent (prune.remove), or one of "
            "torch.nn.utils.parametrizations"
        )
    originals = _originals(layer)
    if any(is_lazy(each) for each in originals):
        raise SimulateError(f"layer {name} has no weights yet, expected a network that has run once")
    if "weight_gradient" in roles and len(originals) > 1:
        raise SimulateError(
            f"the weights of layer {name} are made of {len(originals)} parameters, expected one, or no format for "
            "weight_gradient"
        )


def _channels(layer: nn.Module, role: str, blocks: bool) -> tuple[int, int]:
    """Axis of the channels of a role's tensor, and their number.

    Of weights those of the output; for blocks, which lie along what a product sums over, those of the input. Of what a
    layer reads or gives the axis before rows and columns, counted from the last, as there may be no batch.
    """
    weight: Any = layer.weight
    if role in ("weight", "weight_gradient"):
        output = 1 if isinstance(layer, nn.ConvTranspose2d) else 0
        axis = 1 - output if blocks else output
        return axis, weight.shape[axis]
    side = "in" if role == "activation" else "out"
    features: int = getattr(layer, f"{side}_features" if isinstance(layer, nn.Linear) else f"{side}_channels")
    return 1 - weight.ndim, features


def _check_matches(rules: Rules, names: list[str]) -> None:
    for number, rule in enumerate(rules.rules):
        if not any(rule.covers(name) for name in names):
            raise SimulateError(
                f"{rules.place_of(number)}: rule {number + 1} ({', '.join(rule.layers)}) matches no layer, expected a "
                f"pattern for one of "
                f"{', '.join(names) or 'the layers, of which this network has none'}"
            )


def _accumulator_of(rules: Rules, name: str, layer: nn.Module) -> Accumulation | None:
    found = rules.accumulator_of(name)
    if found is None:
        return None
    place, kind = found
    if isinstance(kind, Float32):
        return None
    check_accumulator(place, name, layer, rules.formats_of(name))
    return Accumulation(kind)


def _attach(layer: nn.Module, quantizers: dict[str, Quantizer], accumulator: Accumulation | None) -> None:
    operands = [quantizers[role] for role in ("activation", "weight") if role in quantizers]
    if "weight" in quantizers:
        parametrize.register_parametrization(layer, "weight", quantizers.pop("weight"))
    parts: dict[str, nn.Module] = {**quantizers} if accumulator is None else {**quantizers, "accumulator": accumulator}
    layer.add_module(_QUANTIZERS, nn.ModuleDict(parts))
    if "activation" in quantizers:
        layer.register_forward_pre_hook(partial(_round_input, quantizers["activation"]), with_kwargs=True)
    if accumulator is not None:
        for quantizer in operands:
            quantizer.keeps = True
        layer.register_forward_hook(partial(_hold_sums, accumulator, operands[0], operands[1]))
    if "gradient" in quantizers:
        layer.register_forward_hook(partial(_round_gradient, quantizers["gradient"]))
    if "weight_gradient" in quantizers:
        _rounded_gradients[_originals(layer)[0]] = quantizers["weight_gradient"]


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


def _advance(progress: Progress, model: nn.Module, _inputs: object) -> None:
    if model.training:
        progress.advance()


def _round_weight_gradients(optimizer: Optimizer, _args: object, _kwargs: object) -> None:
    """Before a step: after the workers' gradients were averaged, so that all round the same one."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            quantizer = _rounded_gradients.get(parameter)  # type: ignore[no-untyped-call]
            if quantizer is not None and parameter.grad is not None:
                with torch.no_grad():
                    parameter.grad.copy_(quantizer(parameter.grad))


register_optimizer_step_pre_hook(_round_weight_gradients)
