"""Lowers a model to a launch plan: steps, a kernel for each, buffers with the required padding, and the launches."""

from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import MappingProxyType

from edgemeta.kernels.cuda.direct import launch as direct
from edgemeta.kernels.cuda.plan.architectures import ARCHITECTURES, Architecture
from edgemeta.kernels.cuda.plan.kernel import NO_RING, Candidate, Kernel, Tensors
from edgemeta.kernels.cuda.plan.launch_plan import Buffer, LaunchPlan
from edgemeta.kernels.cuda.popc import launch as popc
from edgemeta.kernels.cuda.rearrange.launch import MOST_PARTS
from edgemeta.kernels.cuda.tensor import launch as tensor
from edgemeta.kernels.cuda.winograd import launch as winograd
from edgemeta.kernels.lowering.fusion import Fusions, fuse, is_plain
from edgemeta.kernels.lowering.steps import ConvStep, LayerStep, PoolDenseStep, Step, UnsupportedError
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import AveragePool, Clamp, Concat, Conv, Dense, Layer, Padding, TensorType

_CONVOLUTIONS: tuple[Kernel, ...] = (
    popc.candidates,
    tensor.candidates,
    winograd.candidates,
    direct.candidates,
    winograd.alternatives,
)


def _in_folders() -> Iterator[Kernel]:
    """`candidates` of the launch.py in every kernel folder."""
    for path in sorted(Path(__file__).parent.glob("*/launch.py")):
        module = import_module(f"{__package__}.{path.parent.name}.launch")
        if hasattr(module, "candidates"):
            yield module.candidates


KERNELS: tuple[Kernel, ...] = tuple(dict.fromkeys([*_CONVOLUTIONS, *_in_folders(), popc.alternatives]))
"""Queried in this order; the first candidate offered is the choice by rule.

Several kernels support convolutions, so their order is fixed here; every other layer has one kernel, which is found by
its folder.
"""


def step_of(layer: Layer, inputs: Sequence[TensorType]) -> Step:
    """The step of a layer that is not fused with others; inputs: types of the tensors that it reads."""
    match layer := layer.equivalent:
        case Conv() if is_plain(layer):
            return ConvStep(layer)
        case AveragePool() if layer.kernel == inputs[0].shape[:2] and not any(layer.padding):
            return PoolDenseStep(layer, None)
        case Dense():
            return PoolDenseStep(None, layer)
        case _:
            return LayerStep(layer)


FUSIONS = Fusions(step_of, lambda step, after: isinstance(step, ConvStep) and isinstance(after, Clamp), shortcuts=True)

_BY_RULE: Mapping[str, int] = MappingProxyType({})


def lower(
    model: Model,
    architecture: Architecture,
    choices: Mapping[str, int] = _BY_RULE,
    kernels: Sequence[Kernel] = KERNELS,
) -> LaunchPlan:
    """Launch plan of a proved model for one architecture.

    choices: index of the candidate for a step, by the name of its first layer, below `candidate_counts`; steps that are
    not listed use 0, the choice by rule. Raises UnsupportedError, which names the layer that no kernel supports.
    """
    steps, tensors = fuse(model, FUSIONS), tensors_of(model)
    offers = [_offers(step, tensors, architecture, kernels) for step in steps]
    chosen = [offer[choices.get(step.layers[0].name, 0)] for step, offer in zip(steps, offers, strict=True)]
    buffers = _buffers(steps, chosen, tensors)
    launches = tuple(candidate.launch(buffers) for candidate in chosen)
    return LaunchPlan(architecture, launches, buffers[INPUT], tuple(buffers[name] for name in model.outputs))


def candidate_counts(
    model: Model, architecture: Architecture, kernels: Sequence[Kernel] = KERNELS
) -> Mapping[str, int]:
    """Number of candidates of each step, by the name of its first layer. Raises UnsupportedError as `lower`."""
    tensors = tensors_of(model)
    return {step.layers[0].name: len(_offers(step, tensors, architecture, kernels)) for step in fuse(model, FUSIONS)}


def unsupported(layer: Layer, inputs: Sequence[TensorType]) -> str | None:
    """Reason why no architecture has a kernel for a layer, or None if one has.

    inputs: types of the tensors that the layer reads. Convolutions, dense layers and pools over the whole map have
    kernels that need shared memory: `lower` refuses those that are too large for an architecture.
    """
    step = step_of(layer, inputs)
    tensors = Tensors({**dict(zip(step.reads, inputs, strict=True)), layer.name: layer.output}, frozenset())
    greatest = max(ARCHITECTURES.values(), key=lambda each: each.shared_bytes)
    if not isinstance(step, LayerStep) or any(True for offers in KERNELS for _ in offers(step, tensors, greatest)):
        return None
    return _refusal(step, greatest)


def tensors_of(model: Model) -> Tensors:
    """Types of all tensors, and which are packed."""
    types = model.types
    return Tensors(types, frozenset({INPUT, *model.outputs}))


def _offers(step: Step, tensors: Tensors, architecture: Architecture, kernels: Sequence[Kernel]) -> Sequence[Candidate]:
    offers = [candidate for candidates in kernels for candidate in candidates(step, tensors, architecture)]
    if not offers:
        raise UnsupportedError(f"layer {step.layers[0].name!r}: {_refusal(step, architecture)}")
    return offers


def _refusal(step: Step, architecture: Architecture) -> str:
    """Reason why no kernel supports a step, for an error text."""
    match step:
        case LayerStep(Concat(inputs=inputs)) if len(inputs) > MOST_PARTS:
            return f"a concatenation of {len(inputs)} tensors is not supported, expected at most {MOST_PARTS}"
        case LayerStep(layer):
            return f"{type(layer).__name__} is not supported"
        case _:
            return f"no kernel fits into the {architecture.shared_bytes} bytes of shared memory of {architecture.name}"


def _buffers(steps: Sequence[Step], chosen: Sequence[Candidate], tensors: Tensors) -> dict[str, Buffer]:
    """A buffer for the input and for every written tensor, with the widest padding that a reader requires.

    It has nibbles if the step that writes it and all that read it do so.
    """
    rings: dict[str, Padding] = {}
    bytes_: set[str] = set()
    for step, candidate in zip(steps, chosen, strict=True):
        name = step.reads[0]
        rings[name] = _widest(rings.get(name, NO_RING), candidate.ring)
        bytes_.update({*step.reads, *step.writes} - candidate.nibbles)
    written = [INPUT, *(name for step in steps for name in step.writes)]
    return {
        name: Buffer(name, tensors.types[name], packed=True)
        if name in tensors.packed
        else Buffer(name, tensors.types[name], rings.get(name, NO_RING), nibbles=name not in bytes_)
        for name in written
    }


def _widest(a: Padding, b: Padding) -> Padding:
    return max(a[0], b[0]), max(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3])
