"""Which operators, and which of their fields, an integer and a float network may have."""

from typing import get_args, get_origin

import numpy as np

from edgemeta.model.layers import REAL, FloatLayer, Layer, Operator, Weighted
from edgemeta.model.require import require

INTEGER: tuple[type[Operator], ...] = get_args(Layer)
FLOAT: tuple[type[Operator], ...] = tuple(get_origin(each) or each for each in get_args(FloatLayer))


def require_integer(layer: Operator) -> None:
    """Raise ModelError unless an integer network may have the layer; `Operator.prove` proves its numbers."""
    require(isinstance(layer, INTEGER), f"is a {layer.kind}, which only float networks have")
    is_float = isinstance(layer, Weighted) and isinstance(layer.weights, np.ndarray)
    require(not is_float, "has float32 weights, expected those of an integer network")


def require_float(layer: Operator) -> None:
    """Raise ModelError unless a float network may have the layer: real results, no requantization, float32 weights."""
    require(isinstance(layer, FLOAT), f"is a {layer.kind}, which only integer networks have")
    require(layer.output.bits == REAL.bits, f"its output has {layer.output.bits} bits, expected REAL")
    require(getattr(layer, "requantize", None) is None, "it is requantized, which only layers of integer networks are")
    is_float = not isinstance(layer, Weighted) or isinstance(layer.weights, np.ndarray)
    require(is_float, "it has integer weights, expected float32")
