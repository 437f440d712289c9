"""From a model to engines joined by streams: what runs where, forks, and the depths of residual FIFOs.

Every stream carries one integer per clock, in H, W, C order. A tensor with two readers is forked; the branch that joins
an addition gets a FIFO that holds what arrives there before the other branch delivers. Its depth is computed from the
windows on the way (`_needed`), not from timing, so no schedule of the handshakes can block the network.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.fpga.generate.engines import Engine, Range, add_engine, clamp_engine, conv_engine, pool_engine
from edgemeta.kernels.lowering.fusion import Fusions, fuse
from edgemeta.kernels.lowering.requantization import fold_clamps
from edgemeta.kernels.lowering.steps import LayerStep
from edgemeta.model.errors import EdgemetaError
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import Add, AveragePool, Clamp, Conv, Dense, Layer, Multiplier, Requantize, TensorType
from edgemeta.model.weights import BinaryWeights

_CLAMPED = Conv | Dense | AveragePool | Add
_FUSIONS = Fusions(
    lambda layer, _: LayerStep(layer),
    lambda step, after: isinstance(step.layers[0], _CLAMPED) and isinstance(after, Clamp),
)
_SLACK = 64
"""Words of a residual FIFO beyond the computed need."""

_KERNELS = ((1, 1), (3, 3))


class FpgaError(EdgemetaError):
    """A model that cannot become a netlist, or a tool that failed; one sentence."""


@dataclass(frozen=True, eq=False)
class Network:
    """Engines in execution order. fifos: words of the FIFO before an addition's input, by (engine, input number)."""

    model: Model
    engines: tuple[Engine, ...]
    fifos: Mapping[tuple[str, int], int]

    @property
    def load_bits(self) -> int:
        """Bits of the widest memory word, in whole words of 32."""
        widest = max((memory.width for engine in self.engines for memory in engine.memories), default=32)
        return 32 * -(-widest // 32)

    @property
    def interval(self) -> int:
        """Clocks per image that the slowest engine needs, a lower bound."""
        return max(engine.steps for engine in self.engines)


def plan_network(model: Model, foldings: Mapping[str, int], *, constant: bool = False) -> Network:
    """Engines of a proved model. foldings: folds by layer; a layer without them has those of the least logic.

    constant: weights, start values and tables are logic instead of memories. Raises FpgaError for a model that the
    engines cannot run.
    """
    _check(model)
    types = model.types
    ranges = {INPUT: Range(model.input.lo, model.input.hi)}
    engines = []
    written = {INPUT: INPUT}
    for step in fuse(model, _FUSIONS):
        assert isinstance(step, LayerStep)
        layer = step.layer
        engine = _engine(layer, types, ranges, step.after, foldings, constant)
        reads = tuple(written[name] for name in layer.sources)
        engines.append(replace(engine, reads=reads, layers=tuple(each.name for each in step.layers)))
        written[step.output.name] = layer.name
        ranges[step.output.name] = engine.out_range
    network = Network(model, tuple(engines), {})
    return replace(network, fifos=_fifos(network))


def _check(model: Model) -> None:
    types = model.types
    for layer in model.layers:
        reason = unsupported(layer, [types[name] for name in layer.sources])
        if reason is not None:
            raise FpgaError(f"{model.name}: layer {layer.name!r}: {reason}")
    if len(model.outputs) != 1:
        raise FpgaError(f"{model.name}: the model has {len(model.outputs)} outputs, supported is 1")
    if max(model.readers.values()) > 2:
        raise FpgaError(f"{model.name}: a tensor has more than 2 readers")
    if model.readers[model.outputs[0]] > 1:
        raise FpgaError(f"{model.name}: the output {model.outputs[0]!r} is read by a layer, too")
    unread = [name for name in types if model.readers[name] == 0]
    if unread:
        raise FpgaError(f"{model.name}: no layer reads tensor {unread[0]!r}")
    for layer in model.layers:
        if isinstance(layer, Add) and layer.inputs[0] == layer.inputs[1]:
            raise FpgaError(f"{model.name}: layer {layer.name!r}: Add of a tensor to itself is not supported")


def _engine(
    layer: Layer,
    types: Mapping[str, TensorType],
    ranges: Mapping[str, Range],
    clamps: Sequence[Clamp],
    foldings: Mapping[str, int],
    constant: bool,
) -> Engine:
    match layer:
        case Conv() | Dense():
            folds = foldings.get(layer.name) or least_folding(layer, types[layer.input])
            requantize = fold_clamps(layer.requantize, clamps)
            return conv_engine(layer, types[layer.input], ranges[layer.input], folds, requantize, constant=constant)
        case AveragePool():
            requantize = fold_clamps(layer.requantize, clamps)
            assert requantize is not None
            return pool_engine(layer, types[layer.input], ranges[layer.input], requantize)
        case Add():
            return add_engine(layer, types, ranges, clamps)
        case Clamp():
            return clamp_engine(layer, ranges[layer.input])
        case _:
            raise FpgaError(f"layer {layer.name!r}: {type(layer).__name__} is not supported")


def least_folding(layer: Conv | Dense, source: TensorType) -> int:
    """One channel at a time: the least logic."""
    return int(np.prod(source.shape)) if isinstance(layer, Dense) else source.shape[2]


def _fifos(network: Network) -> dict[tuple[str, int], int]:
    """FIFO depths of every addition whose inputs come from one fork; an addition without one needs none.

    Word i of an addition's input demands so many words of the fork's tensor (`_needed`). While one branch has not
    delivered word i, the other one has taken what the first demands, and its results from word i on must be stored.
    """
    by_name = {engine.name: engine for engine in network.engines}
    fifos = {}
    for engine in network.engines:
        if engine.module != "edgemeta_add":
            continue
        trails = [_trail(name, by_name) for name in engine.reads]
        fork = next((name for name in trails[0] if name in trails[1]), INPUT)
        needs = [_needed(name, fork, by_name, network.model) for name in engine.reads]
        for number in (0, 1):
            own, other = needs[number], needs[1 - number]
            delivered = np.searchsorted(own, other, side="right")
            depth = int((delivered - np.arange(len(other))).max(initial=0))
            if depth > 1:
                _, width, channels = engine.out.shape
                rows = _convolutions(engine.reads[1 - number], fork, by_name)
                fifos[engine.name, number] = depth + rows * width * channels + _SLACK
    return fifos


def _convolutions(name: str, fork: str, by_name: Mapping[str, Engine]) -> int:
    """Convolutions between a fork and a tensor; each is at work on a row while the next one waits for it."""
    count = 0
    while name != fork:
        engine = by_name[name]
        count += engine.module == "edgemeta_conv"
        name = engine.reads[0]
    return count


def _trail(name: str, by_name: Mapping[str, Engine]) -> list[str]:
    """Tensors from `name` back to the input, along the first input of every engine."""
    trail = [name]
    while name != INPUT:
        name = by_name[name].reads[0]
        trail.append(name)
    return trail


def _needed(name: str, fork: str, by_name: Mapping[str, Engine], model: Model) -> NDArray[np.int64]:
    """How many words of tensor `fork` must have been read before each word of tensor `name` can appear, int64."""
    if name == fork:
        shape = model.input.shape if name == INPUT else by_name[name].out.shape
        return np.arange(1, int(np.prod(shape)) + 1)
    engine = by_name[name]
    sources = [_needed(source, fork, by_name, model) for source in engine.reads]
    total = int(np.prod(engine.out.shape))
    match engine.module:
        case "edgemeta_conv":
            p = {key: int(value) for key, value in engine.parameters.items() if not isinstance(value, str)}
            rows = np.minimum(np.arange(p["OUT_H"]) * p["STRIDE"] - p["TOP"] + p["K"] - 1, p["H"] - 1)
            columns = np.minimum(np.arange(p["OUT_W"]) * p["STRIDE"] - p["LEFT"] + p["K"] - 1, p["W"] - 1)
            # The line buffer starts a row of windows when all rows below it are complete.
            last = (rows[:, np.newaxis] * p["W"] + p["W"] - 1 + 0 * columns) * p["C"] + p["C"] - 1
            words: NDArray[np.int64] = sources[0][np.repeat(last.ravel(), p["OUT_C"])]
            return words
        case "edgemeta_pool":
            return np.full(total, sources[0][-1])
        case "edgemeta_add":
            return np.maximum(sources[0], sources[1])
        case _:
            return sources[0]


def unsupported(layer: Layer, inputs: Sequence[TensorType]) -> str | None:
    """Reason why the engines cannot run a layer of a proved model, or None."""
    match layer:
        case Conv():
            return _conv(layer) or _weights(layer) or _requantize(layer.requantize)
        case Dense():
            return _weights(layer) or _requantize(layer.requantize)
        case AveragePool():
            if layer.kernel != inputs[0].shape[:2] or any(layer.padding):
                return "AveragePool is supported for the whole map only, without padding"
            return _requantize(layer.requantize)
        case Add():
            bad = [m for m in layer.multipliers if m & (m - 1)]
            return _multiplies("Add", bad[0]) if bad else None
        case Clamp():
            return None
        case _:
            return f"{type(layer).__name__} is not supported"


def _conv(layer: Conv) -> str | None:
    kernel = layer.weights.shape[1:3]
    if kernel not in _KERNELS:
        return f"Conv has a kernel of {kernel[0]}x{kernel[1]}, supported are 1x1 and 3x3"
    if layer.stride not in ((1, 1), (2, 2)):
        return f"Conv has a stride of {layer.stride[0]}, {layer.stride[1]}, supported are 1, 1 and 2, 2"
    if layer.groups != 1:
        return f"Conv has {layer.groups} groups, supported is 1"
    if layer.dilation != (1, 1):
        return "Conv has a dilation, which is not supported"
    return None


def _weights(layer: Conv | Dense) -> str | None:
    if isinstance(layer.weights, BinaryWeights):
        return "binary weights are not supported; power-of-two and fixed ones are"
    return None


def _requantize(requantize: Requantize | None) -> str | None:
    if not isinstance(requantize, Multiplier):
        return None
    multipliers = requantize.multiplier.astype(np.int64)
    bad = multipliers[(multipliers & (multipliers - 1) != 0) | (multipliers == 0)]
    if bad.size:
        return _multiplies("requantization", bad[0])
    exponents = np.log2(multipliers).astype(np.int64)
    shifts = requantize.shift.astype(np.int64) - exponents
    if (shifts < 0).any():
        return "requantization enlarges accumulators"
    if (shifts > 31).any():
        return f"requantization shifts by {int(shifts.max())} bits, supported are up to 31"
    return None


def _multiplies(what: str, factor: int) -> str:
    return (
        f"{what} multiplies by {factor}, which is no power of two; edgemeta quantize --scheme incremental makes "
        "networks that do not multiply"
    )
