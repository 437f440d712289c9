"""The one builder: from a float layer and the types of its tensors to integer layers, by the policy of a scheme."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.graph import FloatModel, Model
from edgemeta.model.layers import (
    Add,
    AveragePool,
    Clamp,
    Concat,
    Constant,
    Function,
    GlobalAverage,
    Homogeneous,
    Layer,
    LayerNorm,
    Lookup,
    MatMul,
    Multiplier,
    PRelu,
    Product,
    Relu,
    Requantize,
    Rescale,
    Softmax,
    TableRecipe,
    TensorType,
    Weighted,
)
from edgemeta.model.weights import Weights
from edgemeta.toolchain.errors import QuantizeError
from edgemeta.toolchain.quantize.blocks import Block, Core
from edgemeta.toolchain.quantize.channels import Grid
from edgemeta.toolchain.quantize.image import image_type, preprocessing_of
from edgemeta.toolchain.quantize.normalization import normalize_layer, softmax_layer
from edgemeta.toolchain.quantize.ranges import Curve, applied
from edgemeta.toolchain.quantize.scales import add_factors, multiplier_for


@dataclass(frozen=True, eq=False)
class Node:
    """A block with the types of its tensors. sources: of its inputs; out: of its result, within the integers lo .. hi.

    is_raw: the result is the int32 accumulators of its layer with weights; lo and hi are not used. source_grid, grid:
    of its first input and its result, where these have a scale for each channel.
    """

    block: Block
    sources: tuple[TensorType, ...]
    out: TensorType
    lo: int
    hi: int
    is_raw: bool = False
    source_grid: Grid | None = None
    grid: Grid | None = None

    @property
    def name(self) -> str:
        """Name of the integer layer."""
        return self.block.name

    @property
    def core(self) -> Core:
        """The float layer, which reads integer tensors."""
        return self.block.core


@dataclass(frozen=True, eq=False)
class Numbers:
    """The numbers of a layer with weights. out: type of its result; requantize: None where that is the accumulators."""

    weights: Weights
    bias: NDArray[np.int32] | None
    requantize: Requantize | None
    out: TensorType


class Policy(ABC):
    """How the nodes of a network requantize. Without another rule a real factor becomes a multiplier and a shift.

    scheme: its name. layers: the float layers that it has, None for all. Methods raise QuantizeError where a number
    does not fit.
    """

    scheme: ClassVar[str] = ""
    layers: ClassVar[tuple[type, ...] | None] = None

    @classmethod
    def require(cls, blocks: Sequence[Block]) -> None:
        """Raise QuantizeError for a layer that the scheme does not have."""
        for block in blocks:
            if cls.layers is not None and not isinstance(block.core, cls.layers):
                kind = type(block.core).__name__
                raise QuantizeError(
                    f"layer {block.name!r} is a {kind}, which scheme {cls.scheme} does not have: use auto"
                )

    @abstractmethod
    def weighted(self, node: Node) -> Numbers:
        """The integers of a convolution or dense layer."""

    def total(self, node: Node) -> tuple[tuple[int, int], int]:
        """Multipliers and shift of an addition."""
        one, other = node.sources
        return add_factors(one, other, node.out)

    def mean(self, node: Node, area: int) -> Requantize:
        """From the sum of so many elements to their mean."""
        return multiplier_for(np.array([node.sources[0].scale / (node.out.scale * area)]), node.lo, node.hi, node.name)

    def factor(self, node: Node, scale: float) -> Multiplier:
        """From integers of this scale, or from products of them, to the node's result."""
        return multiplier_for(np.array([scale / node.out.scale]), node.lo, node.hi, node.name)

    def rescaled(self, node: Node, name: str, source: str, kind: TensorType) -> Layer:
        """The layer `name` that makes integers of the node's result of those of a tensor `source` of this type."""
        return Rescale(name, source, replace(node.out, shape=kind.shape), self.factor(node, kind.scale))


P = TypeVar("P", bound=Policy, covariant=True)


@dataclass(frozen=True, eq=False)
class Lowering(Generic[P]):
    """Makes the integer network of a float network's blocks. types: of "input" and of every block's output.

    raw: names of the outputs that stay int32 accumulators. grids: of the tensors with a scale for each channel. Its
    methods raise QuantizeError.
    """

    model: FloatModel
    blocks: Sequence[Block]
    types: Mapping[str, TensorType]
    policy: P
    raw: frozenset[str]
    grids: Mapping[str, Grid] = field(default_factory=dict)

    def build(self, provenance: Mapping[str, object] | None = None) -> Model:
        """The integer model."""
        self.policy.require(self.blocks)
        layers = [layer for block in self.blocks for layer in self.layers(block)]
        names = {block.after: block.name for block in self.blocks}
        return assemble(self.model, layers, [names[each] for each in self.model.outputs], provenance or {})

    def layers(self, block: Block, *, is_raw: bool = False) -> list[Layer]:
        """The layers of one block. is_raw: its accumulators are wanted, as those of the blocks `raw`."""
        sources, out = tuple(self.types[name] for name in block.inputs), self.types[block.name]
        bounds = activation_bounds(block.core if isinstance(block.core, Relu) else block.relu, out)
        grids = self.source_grid(block), self.grids.get(block.name)
        return lower(Node(block, sources, out, *bounds, is_raw or block.name in self.raw, *grids), self.policy)

    def source_grid(self, block: Block) -> Grid | None:
        """That of its first input; none where the layer sums over channels, as its weights hold it (`LayerWeights`)."""
        grid = self.grids.get(block.inputs[0])
        return None if grid is None or block.sums_channels else grid


def assemble(
    model: FloatModel, layers: Sequence[Layer], outputs: Sequence[str], provenance: Mapping[str, object]
) -> Model:
    """The integer model of `layers`; name, task and preprocessing are the float model's."""
    return Model(
        name=model.name,
        input=image_type(model),
        layers=tuple(layers),
        outputs=tuple(outputs),
        task=model.task,
        preprocessing=preprocessing_of(model),
        provenance=dict(provenance),
    )


def lower(node: Node, policy: Policy) -> list[Layer]:
    """The integer layers of a node, of which the last has its name. Raises QuantizeError."""
    core, name, out, source = node.core, node.name, node.out, node.sources[0]
    match core:
        case Weighted():
            numbers = policy.weighted(node)
            return [core.quantized(numbers.out, numbers.weights, numbers.bias, numbers.requantize)]
        case Add():
            multipliers, shift = policy.total(node)
            return [replace(core, output=out, multipliers=multipliers, shift=shift, lo=node.lo, hi=node.hi)]
        case Product():
            return [replace(core, output=out, requantize=policy.factor(node, source.scale * node.sources[1].scale))]
        case AveragePool():
            return [replace(core, output=out, requantize=policy.mean(node, core.area(source.shape)))]
        case GlobalAverage():
            sides, mean = source.shape[:2], policy.mean(node, core.area(source.shape))
            return [AveragePool(name, core.input, out, kernel=sides, stride=sides, requantize=mean)]
        case MatMul():
            scale = source.scale * node.sources[1].scale * core.factor
            return [replace(core, output=out, requantize=policy.factor(node, scale), factor=1.0)]
        case Softmax():
            return [softmax_layer(core, source, out)]
        case LayerNorm():
            return [normalize_layer(core, source, out)]
        case Constant():
            levels = np.floor(core.values / np.float64(out.scale) + 0.5) + out.zero_point
            return [replace(core, output=out, values=np.clip(levels, out.lo, out.hi).astype(out.dtype))]
        case Function() if node.source_grid is not None or node.grid is not None:
            return [Lookup(name, core.input, out, _recipe(core, node))]
        case Function():
            return [Lookup(name, core.input, out, lookup_table(applied(core), source, out))]
        case PRelu():
            sloped = [applied(Function(name, "", "leaky_relu", float(slope))) for slope in core.slopes]
            return [Lookup(name, core.input, out, np.concatenate([lookup_table(each, source, out) for each in sloped]))]
        case Relu() if _same(source, out):
            return [Clamp(name, core.input, out, node.lo, node.hi)]
        case Relu():
            return [policy.rescaled(node, name, core.input, source)]
        case Concat():
            return _joined(core, node, policy)
        case Homogeneous() if _same(source, out):
            return [replace(core, output=out)]
        case Homogeneous():
            moved = replace(core, name=f"{name}.moved", output=replace(source, shape=out.shape))
            return [moved, policy.rescaled(node, name, moved.name, moved.output)]
    raise AssertionError(core)


def _recipe(core: Function, node: Node) -> TableRecipe:
    """The tables of a function whose input or result has a scale for each channel."""
    source, out = node.source_grid or Grid.of(node.sources[0]), node.grid or Grid.of(node.out)
    return TableRecipe.of(core.function, source.start, source.step, out.step, node.out, core.alpha, core.beta)


def _joined(core: Concat, node: Node, policy: Policy) -> list[Layer]:
    """A concatenation, with a layer that rescales every input whose quantization differs."""
    layers: list[Layer] = []
    names = list(core.inputs)
    for i, kind in enumerate(node.sources):
        if not _same(kind, node.out):
            layers.append(policy.rescaled(node, f"{core.name}.input{i}", names[i], kind))
            names[i] = layers[-1].name
    return [*layers, replace(core, inputs=tuple(names), output=node.out)]


def _same(kind: TensorType, other: TensorType) -> bool:
    """Whether two types represent numbers alike."""
    return replace(kind, shape=other.shape) == other


def lookup_table(function: Curve, source: TensorType, out: TensorType) -> NDArray[np.int8] | NDArray[np.uint8]:
    """[1, 256]: the function of the real number of each input integer, as the nearest output integer."""
    integers = np.arange(256) - (128 if source.signed else 0)
    values = function((source.scale * (integers - source.zero_point)).astype(np.float64))
    entries = np.clip(np.floor(values / out.scale + 0.5) + out.zero_point, out.lo, out.hi)
    table: NDArray[np.int8] | NDArray[np.uint8] = entries.astype(out.dtype)[np.newaxis]
    return table


def raw_outputs(model: FloatModel, blocks: Sequence[Block]) -> frozenset[str]:
    """Blocks whose int32 accumulators are outputs of the network: with weights, without ReLU, read by nothing."""
    read = {name for block in blocks for name in block.inputs}
    return frozenset(
        block.name
        for block in blocks
        if block.after in model.outputs and block.has_weights and block.relu is None and block.name not in read
    )


def activation_bounds(relu: Relu | None, out: TensorType) -> tuple[int, int]:
    """Clamp bounds that implement the activation: 0 and its ceiling as integers of `out`."""
    return (out.lo, out.hi) if relu is None else bounds(0.0, relu.ceiling, out)


def bounds(low: float | None, high: float | None, out: TensorType) -> tuple[int, int]:
    """Real bounds as the nearest integers of a type; its own least and greatest integer where a bound is None."""

    def integer(real: float) -> int:
        return min(max(int(np.floor(real / out.scale + 0.5)) + out.zero_point, out.lo), out.hi)

    return out.lo if low is None else integer(low), out.hi if high is None else integer(high)
