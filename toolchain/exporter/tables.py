"""Which function a table is, so that ONNX can say it by name."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.layers import Lookup, TensorType
from edgemeta.model.layers.functions import FunctionName, evaluate
from edgemeta.toolchain.exporter.qdq_graph import QdqGraph

_PLAIN: dict[FunctionName, str] = {
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "hard_swish": "HardSwish",
    "softplus": "Softplus",
}


@dataclass(frozen=True)
class NamedFunction:
    """A function by its name in the float graph."""

    function: FunctionName
    alpha: float = 0.0
    beta: float = 0.0


def _candidates() -> Iterator[NamedFunction]:
    for function in ("sigmoid", "silu", "tanh", "hard_swish", "softplus"):
        yield NamedFunction(function)
    yield NamedFunction("hard_sigmoid", 1 / 6, 0.5)
    yield NamedFunction("hard_sigmoid", 0.2, 0.5)
    for slope in (0.01, 0.1, 0.2, 0.3):
        yield NamedFunction("leaky_relu", slope)
    yield NamedFunction("elu", 1.0)


def function_of(layer: Lookup, source: TensorType) -> NamedFunction | None:
    """The function of which the table holds the nearest integers, all of them."""
    if len(layer.table) != 1:
        return None
    real = (source.scale * (np.arange(256) - (128 if source.signed else 0) - source.zero_point)).astype(np.float32)
    return next((named for named in _candidates() if (_table(named, real, layer.output) == layer.table[0]).all()), None)


def _table(named: NamedFunction, real: NDArray[np.float32], out: TensorType) -> NDArray[np.float64]:
    values = evaluate(named.function, real, named.alpha, named.beta).astype(np.float64)
    entries: NDArray[np.float64] = np.clip(np.floor(values / out.scale + 0.5) + out.zero_point, out.lo, out.hi)
    return entries


def write_function(graph: QdqGraph, named: NamedFunction, source: str, name: str) -> None:
    """The function of a real tensor, under a name."""
    match named.function:
        case "silu":
            gate = graph.node("Sigmoid", [source], f"{name}.gate")
            graph.node("Mul", [source, gate], name)
        case "leaky_relu":
            graph.node("LeakyRelu", [source], name, alpha=named.alpha)
        case "elu":
            graph.node("Elu", [source], name, alpha=named.alpha)
        case "hard_sigmoid":
            graph.node("HardSigmoid", [source], name, alpha=named.alpha, beta=named.beta)
        case _:
            graph.node(_PLAIN[named.function], [source], name)
