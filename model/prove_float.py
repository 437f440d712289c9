"""Proof that a float network can run: the layers, outputs and preprocessing fit each other."""

import numpy as np

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import INPUT, FloatModel
from edgemeta.model.layers import MAX_SIDE, Shape
from edgemeta.model.prove_preprocessing import prove_colour, prove_fill
from edgemeta.model.prove_task import prove_outputs
from edgemeta.model.require import require, require_between, shown
from edgemeta.model.spec import require_float


def prove_float(model: FloatModel, source: str) -> dict[str, Shape]:
    """The shape (H, W, C) of every tensor, "input" first.

    Raises ModelError with `source`, the layer, what was found and what was expected.
    """
    try:
        shapes = _shapes(model)
        for name in model.outputs:
            require(name in shapes, f"output {name!r} is no tensor, expected the name of a layer")
        prove_outputs(model.task, {name: shapes[name] for name in model.outputs})
        _prove_preprocessing(model)
    except ModelError as error:
        raise ModelError(f"{source}: {error}") from None
    return shapes


def _shapes(model: FloatModel) -> dict[str, Shape]:
    for side in model.input_shape:
        require_between(side, 1, MAX_SIDE, "a side of the input's shape")
    shapes: dict[str, Shape] = {INPUT: model.input_shape}
    for layer in model.layers:
        try:
            require(layer.name not in shapes, "the name is already in use")
            require_float(layer)
            require(len(layer.sources) > 0, "there is no input")
            for name in layer.sources:
                require(name in shapes, f"reads {name!r}, expected the input or an earlier layer")
            shapes[layer.name] = layer.shape(*(shapes[name] for name in layer.sources))
        except ModelError as error:
            raise ModelError(f"layer {layer.name!r}: {error}") from None
    return shapes


def _prove_preprocessing(model: FloatModel) -> None:
    channels = model.input_shape[2]
    prove_colour(model.colour, channels)
    prove_fill(model, channels)
    counts = {len(model.mean), len(model.scale)} <= {1, channels}
    is_finite = bool(np.isfinite(model.mean).all() and np.isfinite(model.scale).all())
    require(
        counts and is_finite and min(model.scale) > 0,
        f"preprocessing is (pixel - {shown(model.mean)}) / {shown(model.scale)}, expected 1 or {channels} finite "
        "numbers each, and scales above 0",
    )
