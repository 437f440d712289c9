"""Which modules rules are for, what each of them multiplies, and which ones cannot be rounded."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.nn.utils import parametrize

from edgemeta.toolchain.errors import SimulateError
from edgemeta.toolchain.number_formats.formats import Float32, Format, Integer
from edgemeta.toolchain.simulate.rules import ROLES, Rules, rule_without


class Operand(nn.Identity):
    """One factor of a product. axis: the one that the product sums over, counted from the last."""

    def __init__(self, axis: int) -> None:
        super().__init__()
        self.axis = axis


class MatMul(nn.Module):
    """`left @ right`, for a network that multiplies two tensors itself.

    An attention that multiplies queries and keys by `self.scores(q, k.mT)`, with `self.scores = MatMul()`, is under
    rules: `scores.left` and `scores.right` are rounded as activations, and the gradient of `scores` as that of a layer.
    """

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = Operand(-1), Operand(-2)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        """The matrix product [..., M, N] of [..., M, K] and [..., K, N]."""
        product: Tensor = self.left(left) @ self.right(right)
        return product


TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
LOOKUPS = (nn.Embedding, nn.EmbeddingBag)
"""They look rows of their weights up: these are rounded, what they read are indices."""
ROLES_OF = {MatMul: ("gradient",), Operand: ("activation",), **dict.fromkeys(LOOKUPS, ROLES[1:])}
"""Roles of the kinds that do not have all of them."""
LAYERS = (nn.Conv1d, nn.Conv2d, nn.Conv3d, *TRANSPOSED, nn.Linear, *LOOKUPS, MatMul, Operand)
"""Kinds of modules that rules are for."""


def layers_of(model: nn.Module, rules: Rules) -> dict[str, nn.Module]:
    """The layers that rules are for, by name.

    Raises SimulateError for a rule that matches none, and for one that rounds a module whose operands are out of reach.
    """
    modules = dict(model.named_modules())
    reasons = {name: why for name, module in modules.items() if (why := _out_of_reach(module)) is not None}
    layers: dict[str, nn.Module] = {
        name: module for name, module in modules.items() if isinstance(module, LAYERS) and name not in reasons
    }
    _check_matches(rules, [*layers, *reasons], list(modules))
    rounded = sorted(name for name in reasons if rules.rounded_roles(name))
    if rounded:
        first, *others = rounded
        which = f"layer {first}" if first else "the network"
        more = f" (and {', '.join(others)})" if others else ""
        roles = [role for role in ROLES if any(role in rules.rounded_roles(name) for name in rounded)]
        raise SimulateError(
            f"{which} is of the kind {type(modules[first]).__name__}{more}, {reasons[first]}; expected a last rule "
            f"{rule_without(rounded, modules, roles)}"
        )
    return layers


def _out_of_reach(module: nn.Module) -> str | None:
    """Why the operands of a module cannot be rounded; None if they can be, or if it multiplies nothing."""
    match module:
        case nn.RNNBase() | nn.RNNCellBase():
            return "which multiplies inside a function of PyTorch, where nothing can be rounded"
        case nn.Bilinear():
            return "which multiplies two inputs, and a rule has one activation"
        case nn.Embedding() | nn.EmbeddingBag() if module.sparse or module.max_norm is not None:
            return "which changes single rows of its weights (`max_norm`, `sparse`), and a rule rounds them all"
        case _:
            return None


def channels(layer: nn.Module, role: str, blocks: bool) -> tuple[int, int]:
    """Axis of the channels of a role's tensor, and their number.

    Of weights those of the output; for blocks, which lie along what a product sums over, those of the input. Of what a
    layer reads or gives the axis before rows and columns, counted from the last, as there may be no batch. A row of an
    embedding is what the next layer sums over.
    """
    if isinstance(layer, MatMul | Operand):
        return layer.axis if isinstance(layer, Operand) else -1, 1
    if isinstance(layer, LOOKUPS):
        return (-1 if role == "gradient" else 1), layer.embedding_dim
    weight: Any = layer.weight
    if role in ("weight", "weight_gradient"):
        output = 1 if isinstance(layer, TRANSPOSED) else 0
        axis = 1 - output if blocks else output
        return axis, weight.shape[axis]
    side = "in" if role == "activation" else "out"
    features: int = getattr(layer, f"{side}_features" if isinstance(layer, nn.Linear) else f"{side}_channels")
    return 1 - weight.ndim, features


def rounds(layer: nn.Module, role: str, kind: Format) -> bool:
    """Whether a format of this role rounds anything of the layer."""
    roles = next((roles for each, roles in ROLES_OF.items() if isinstance(layer, each)), ROLES)
    return not isinstance(kind, Float32) and role in roles


def check_layer(name: str, layer: nn.Module, formats: Mapping[str, Format]) -> None:
    """Raise SimulateError for weights, or factors of a product, that cannot be rounded in these formats, by role."""
    roles = [role for role, kind in formats.items() if rounds(layer, role, kind)]
    if isinstance(layer, Operand):
        kind = formats.get("activation")
        if isinstance(kind, Integer) and kind.per_channel:
            raise SimulateError(f"layer {name} is a factor of a product and has one range, found `per_channel`")
    if not roles or isinstance(layer, MatMul | Operand):
        return
    if "weight" not in layer._parameters and not parametrize.is_parametrized(layer, "weight"):
        raise SimulateError(
            f"the weights of layer {name} are no parameter, as pruning leaves them and the older weight_norm and "
            "spectral_norm of torch.nn.utils, expected that it is made permanent (prune.remove), or one of "
            "torch.nn.utils.parametrizations"
        )
    made_of = originals(layer)
    if any(is_lazy(each) for each in made_of):
        raise SimulateError(f"layer {name} has no weights yet, expected a network that has run once")
    if "weight_gradient" in roles and len(made_of) > 1:
        raise SimulateError(
            f"the weights of layer {name} are made of {len(made_of)} parameters, expected one, or no format for "
            "weight_gradient"
        )


def originals(layer: nn.Module) -> list[Any]:
    """The parameters of which a layer's weights are made: itself, or those of a parametrization."""
    if not parametrize.is_parametrized(layer, "weight"):
        return [layer._parameters["weight"]]
    made: Any = layer.parametrizations.weight  # type: ignore[union-attr]
    return [made.original] if made.is_tensor else [getattr(made, f"original{i}") for i in range(made.ntensors)]


def _check_matches(rules: Rules, names: list[str], modules: list[str]) -> None:
    """A rule has to match a layer; one that rounds nothing may name any module instead, to leave its products out."""
    for number, rule in enumerate(rules.rules):
        known = modules if rule.rounds_nothing else names
        if not any(rule.covers(name) for name in known):
            raise SimulateError(
                f"{rules.place_of(number)}: rule {number + 1} ({', '.join(rule.layers)}) matches no layer, expected a "
                f"pattern for one of {', '.join(names) or 'the layers, of which this network has none'}"
            )
