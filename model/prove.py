"""Proof that a model can run: a model that passes has no overflow in any layer, wherever that layer runs.

The backends `reference` and `cpu` support every layer; others say which ones they do (the table in docs/backends.md).

Each failure is a ModelError of one sentence. The limits prevent a hostile file from exhausting memory or time.
"""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import INPUT, Model, Preprocessing
from edgemeta.model.layers import MAX_SIDE, Layer, TensorType
from edgemeta.model.layers.bounds import prove_type
from edgemeta.model.prove_preprocessing import prove_preprocessing
from edgemeta.model.prove_task import prove_task
from edgemeta.model.require import require, require_array, require_between, require_text, require_values, shown
from edgemeta.model.spec import require_integer

MAX_LAYERS = 4096
MAX_ELEMENTS = 1 << 27
"""Total elements of all tensors of one image, padding included."""
MAX_MULTIPLICATIONS = 1 << 37
"""Multiplications of convolutions and additions of pools for one image; a dense layer has as many as weights."""
MAX_PROVENANCE_DEPTH = 16
MAX_SELF_TEST = 64
"""Greatest number of self-test inputs."""
MAX_OUTPUTS = 64
MAX_RECIPES = 1 << 17
"""Greatest number of tables of 256 entries that recipes make, which is 32 MiB of them."""

Types = Mapping[str, TensorType]


def prove(model: Model) -> None:
    """Raise ModelError unless the model meets every requirement stated in the docstrings of the records."""
    require_text(model.name, "the model's name")
    _prove_input(model.input, model.preprocessing)
    require_between(len(model.layers), 1, MAX_LAYERS, "the number of layers")
    _prove_recipes(model)
    types = {INPUT: model.input}
    for i, layer in enumerate(model.layers):
        require_text(layer.name, f"the name of layer {i}")
        try:
            require(layer.name not in types, "the name is already in use")
            require_integer(layer)
            _prove_layer(layer, types, is_output=layer.name in model.outputs)
        except ModelError as error:
            raise ModelError(f"layer {layer.name!r}: {error}") from None
        types[layer.name] = layer.output
    _prove_limits(model, types)
    _prove_outputs(model, types)
    prove_task(model)
    _prove_self_test(model)
    _prove_provenance(model.provenance)


def _prove_input(kind: TensorType, preprocessing: Preprocessing) -> None:
    for side in kind.shape:
        require_between(side, 1, MAX_SIDE, "a side of the input's shape")
    try:
        prove_type(kind)
        require(kind.bits <= 8, f"bits is {kind.bits}, expected 1 .. 8")
    except ModelError as error:
        raise ModelError(f"input: {error}") from None
    prove_preprocessing(preprocessing, kind)


def _prove_layer(layer: Layer, types: Types, *, is_output: bool) -> None:
    sources = _prove_inputs(layer, types)
    prove_type(layer.output)
    shape = layer.shape(*(source.shape for source in sources))
    for side in shape:
        require_between(side, 1, MAX_SIDE, "a side of the output's shape")
    require(shape == layer.output.shape, f"output has shape {list(layer.output.shape)}, expected {list(shape)}")
    layer.prove(sources, is_output=is_output)


def _prove_inputs(layer: Layer, types: Types) -> list[TensorType]:
    names = layer.sources
    require(len(names) > 0, "there is no input")
    for name in names:
        require(name in types, f"input {shown(name)} is not an earlier layer")
        require(types[name].bits <= 8, f"input {name!r} has raw accumulators, which only the network's output may have")
    return [types[name] for name in names]


def _prove_recipes(model: Model) -> None:
    """Tables are made where their layer is proved: before that their number is known."""
    made = sum(layer.tables_made for layer in model.layers)
    require(made <= MAX_RECIPES, f"recipes make {made} tables, expected at most {MAX_RECIPES}")


def _prove_limits(model: Model, types: Types) -> None:
    elements = sum(math.prod(kind.shape) for kind in types.values())
    costs = [layer.cost(types[layer.sources[0]].shape) for layer in model.layers]
    elements += sum(padded for _, padded in costs)
    multiplications = sum(products for products, _ in costs)
    require(elements <= MAX_ELEMENTS, f"the tensors have {elements} elements together, expected at most {MAX_ELEMENTS}")
    require(
        multiplications <= MAX_MULTIPLICATIONS,
        f"one image takes {multiplications} multiplications, expected at most {MAX_MULTIPLICATIONS}",
    )


def _prove_outputs(model: Model, types: Types) -> None:
    require_between(len(model.outputs), 1, MAX_OUTPUTS, "the number of outputs")
    for output in model.outputs:
        require(output in types and output != INPUT, f"output {shown(output)} is not a layer")
    twice = next((name for name, count in Counter(model.outputs).items() if count > 1), None)
    require(twice is None, f"output {shown(twice)} occurs more than once")


def _prove_self_test(model: Model) -> None:
    """Check shapes, dtypes and ranges; whether the outputs are right is decided when the test runs."""
    if model.self_test is None:
        return
    batch, expected = model.self_test.batch, model.self_test.expected
    require_between(len(batch) if batch.ndim else 0, 1, MAX_SELF_TEST, "the number of self-test inputs")
    require_array(batch, model.input.dtype, ((len(batch), *model.input.shape),), "the self-test's batch")
    require_values(batch, model.input.lo, model.input.hi, "the self-test's batch")
    outputs = model.output_types
    kinds = {output.dtype for output in outputs}
    elements = sum(math.prod(output.shape) for output in outputs)
    kind = outputs[0].dtype if len(kinds) == 1 else np.int32
    require_array(expected, kind, ((len(batch), elements),), "the self-test's expected outputs")
    begin = 0
    for output in outputs:
        end = begin + math.prod(output.shape)
        require_values(expected[:, begin:end], output.lo, output.hi, "the self-test's expected outputs")
        begin = end


def _prove_provenance(provenance: Mapping[str, object]) -> None:
    """Check that these are JSON values, nested at most MAX_PROVENANCE_DEPTH deep."""
    level: list[object] = [dict(provenance)]
    for _ in range(MAX_PROVENANCE_DEPTH):
        level = [child for value in level for child in _children(value)]
    require(not level, f"provenance is nested more than {MAX_PROVENANCE_DEPTH} deep")
    try:
        json.dumps(dict(provenance), ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError) as error:
        raise ModelError(f"provenance cannot be written as JSON ({error})") from None


def _children(value: object) -> Iterable[object]:
    if isinstance(value, Mapping):
        return value.values()
    return value if isinstance(value, list | tuple) else ()
