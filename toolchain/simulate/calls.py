"""Products that a network computes past its layers: nothing rounds their operands, so it is refused by name.

PyTorch's multi-head attention and torchvision's Swin compute with the weights of a layer without calling it; a
transformer multiplies queries and keys in its own forward. They are found in the network's first forward passes, by
what reaches PyTorch's operators.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.hooks import RemovableHandle

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.simulate.rounded_weight import QUANTIZERS
from edgemeta.toolchain.simulate.rules import ROLES, Rules, rule_without

_PRODUCTS = re.compile(
    r"linear|(add|b|baddb|addb|_scaled_|_grouped_|_scaled_grouped_|_int_|_sparse_)?mm|(add)?mv|v?dot|addr|_?convolution"
    r"|_trilinear|_cdist_forward|_euclidean_dist|_addmm_activation|mkldnn_rnn_layer|(_cudnn|miopen)_rnn"
    r"|_thnn_fused_(lstm|gru)_cell|_transformer_encoder_layer_fwd|.*attention.*"
)
"""PyTorch's operators that sum products."""
_SCALINGS = frozenset(("mul", "mul_", "addcmul", "addcmul_"))
"""Products element by element: those with a parameter count, but for normalizations and PyTorch's own modules."""
_NORMALIZATIONS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)
_ADDED = "bias"
"""How the name of a parameter ends that PyTorch's products add."""


def check_attention(model: nn.Module, rules: Rules) -> None:
    """Raise SimulateError if a rule rounds the layer of a multi-head attention, which is never called."""
    rounded = {layer for layer in _projections(model) if rules.rounded_roles(layer)}
    if rounded:
        names = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
        raise SimulateError(_not_called("PyTorch's MultiheadAttention", rounded, names, ROLES))


def _projections(model: nn.Module) -> set[str]:
    """The layers of multi-head attentions."""
    attentions = (name for name, module in model.named_modules() if isinstance(module, nn.MultiheadAttention))
    return {f"{name}.out_proj" if name else "out_proj" for name in attentions}


def watch_first_passes(model: nn.Module, layers: Mapping[str, nn.Module], rules: Rules) -> None:
    """Watch the first forward pass in training and the first one in evaluation.

    Each raises a SimulateError at its end if products were computed past the layers where rules round, or if a layer
    computed with other weights than the rounded ones. Afterwards the network has no hooks of this any more. A pass that
    is compiled is not watched.
    """
    _Watch(model, layers, rules)


class _Watch:
    """Waits for the passes to watch; between them the network has two hooks."""

    def __init__(self, model: nn.Module, layers: Mapping[str, nn.Module], rules: Rules) -> None:
        self._layers, self._rules = dict(layers), rules
        self._seen: set[bool] = set()
        self._pass: _Pass | None = None
        self._handles = [
            model.register_forward_pre_hook(self._begin),
            model.register_forward_hook(self._end, always_call=True),
        ]

    def _begin(self, model: nn.Module, _inputs: object) -> None:
        if not torch.compiler.is_compiling() and self._pass is None and model.training not in self._seen:
            self._pass = _Pass(model, self._layers, self._rules)

    def _end(self, model: nn.Module, _inputs: object, _output: object) -> None:
        if self._pass is None or torch.compiler.is_compiling():
            return
        watched, self._pass = self._pass, None
        watched.close()
        if sys.exc_info()[1] is not None:  # it did not come to its end
            return
        self._seen.add(model.training)
        if len(self._seen) == 2:
            for handle in self._handles:
                handle.remove()
        if faults := list(watched.faults()):
            raise SimulateError("; and ".join(faults))


class _Pass(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """One forward pass: layers that were called, weights that were rounded, and products outside of the layers."""

    def __init__(self, model: nn.Module, layers: Mapping[str, nn.Module], rules: Rules) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._layers, self._rules = layers, rules
        self._modules = dict(model.named_modules())
        self._attentions = {name.rpartition(".")[0] for name in _projections(model)}
        self._parameters: dict[int, list[str]] = {}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            self._parameters.setdefault(_memory(parameter), []).append(name)
        self._stack: list[str] = [""]
        self._called = {""}
        self._rounded: dict[str, Tensor] = {}
        self._products: dict[str, set[str]] = {}
        self._handles = list(self._hooks())
        self.__enter__()  # type: ignore[no-untyped-call]

    def _hooks(self) -> Iterator[RemovableHandle]:
        for name, module in self._modules.items():
            if name:
                yield module.register_forward_pre_hook(partial(self._enter, name), prepend=True)
                yield module.register_forward_hook(self._leave, always_call=True)
        for name in self._layers:
            if (weight := self._weight_of(name)) is not None:
                yield weight.register_forward_hook(partial(self._note_weight, name))

    def _weight_of(self, layer: str) -> nn.Module | None:
        quantizers: nn.ModuleDict = getattr(self._layers[layer], QUANTIZERS)
        return dict(quantizers.items()).get("weight")

    def _enter(self, name: str, _module: nn.Module, _inputs: object) -> None:
        self._stack.append(name)
        self._called.add(name)

    def _leave(self, _module: nn.Module, _inputs: object, _output: object) -> None:
        self._stack.pop()

    def _note_weight(self, name: str, _module: nn.Module, _inputs: object, rounded: Tensor) -> None:
        self._rounded[name] = rounded

    def close(self) -> None:
        """Take all hooks off."""
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        for handle in self._handles:
            handle.remove()

    def __torch_dispatch__(
        self, func: Any, types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Note a product, and compute it."""
        operator: str = func.overloadpacket.__name__
        is_product = _PRODUCTS.fullmatch(operator) is not None
        if (is_product or operator in _SCALINGS) and not self._is_rounded(is_product, _tensors(args)):
            self._products.setdefault(self._stack[-1], set()).add(operator)
        return func(*args, **(kwargs or {}))

    def _is_rounded(self, is_product: bool, operands: Sequence[Tensor]) -> bool:
        """Whether a product is a layer's own, or is to stay in float32."""
        where, memory = self._stack[-1], {_memory(each) for each in operands}
        names = (self._parameters[each] for each in memory & self._parameters.keys())
        parameters = [each for each in names if not each[0].endswith(_ADDED)]
        layer = next((name for name in reversed(self._stack) if name in self._layers), None)
        if layer is not None:
            own = tuple(f"{layer}.{of}weight".lstrip(".") for of in ("", "parametrizations."))
            others = [each for each in parameters if not any(name.startswith(own) for name in each)]
            return ".parametrizations." in where or not others or not self._rules.rounded_roles(layer)
        if not is_product and (not parameters or _only_scales(self._modules[where])):
            return True
        if any(_memory(weight) in memory for name, weight in self._rounded.items() if name not in self._called):
            return True  # `faults` names the layer
        return where in self._attentions or not self._rules.rounded_roles(where)

    def faults(self) -> Iterator[str]:
        """A sentence for each kind of product whose operands nothing rounds."""
        watched = {name for name in self._layers if set(self._rules.rounded_roles(name)) & {"activation", "gradient"}}
        if left_out := watched & (self._rounded.keys() - self._called):
            yield _not_called("the network", left_out, self._layers, ("activation", "gradient"))
        if self._products:
            where = sorted(self._products)
            first = f"{where[0]} ({', '.join(sorted(self._products[where[0]]))})" if where[0] else "its own forward"
            which = f"{first} and {len(where) - 1} more" if len(where) > 1 else first
            roles = [role for role in ROLES if any(role in self._rules.rounded_roles(name) for name in where)]
            yield (
                f"the network multiplies in {which} past its layers, where nothing can be rounded; expected layers, "
                "such as MatMul of simulate.products, or a last rule "
                f"{rule_without(where, self._modules, roles or ROLES)}"
            )
        for name in self._layers:
            if self._weight_of(name) is not None and name in self._called and name not in self._rounded:
                yield (
                    f"layer {name} computes with other weights than its rounded ones, expected that parametrizations "
                    "are put on before `prepare`"
                )


def _only_scales(module: nn.Module) -> bool:
    """Whether it multiplies by its parameters element by element as PyTorch does in float32."""
    return isinstance(module, _NORMALIZATIONS) or type(module).__module__.startswith("torch.nn.")


def _memory(x: Tensor) -> int:
    """Where a tensor's elements lie, its views' too; of one without elements a number of its own."""
    return x.untyped_storage().data_ptr() or id(x)


def _tensors(args: Sequence[Any]) -> list[Tensor]:
    """The tensors with memory among arguments, and in lists among them."""
    flat = (each for arg in args for each in (arg if isinstance(arg, list | tuple) else (arg,)))
    return [each for each in flat if type(each) in (Tensor, nn.Parameter) and each.layout == torch.strided]


def _not_called(who: str, layers: set[str], names: Iterable[str], roles: Sequence[str]) -> str:
    """What was found, and the rule that is expected."""
    first, *others = sorted(layers)
    which = f"layer {first} and {len(others)} more" if others else f"layer {first}"
    return (
        f"{who} computes with the weights of {which} without a call, so what goes in and out there cannot be rounded; "
        f"expected a last rule {rule_without(layers, names, roles)}"
    )
