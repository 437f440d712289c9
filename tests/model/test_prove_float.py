"""The float graph proves itself: shapes, finite numbers, names."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from edgemeta.model.errors import ModelError
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv, Relu
from edgemeta.model.prove_float import prove_float
from edgemeta.model.tasks import Classification


def changed(model: FloatModel, layer: str, fields: dict[str, Any]) -> FloatModel:
    layers = tuple(replace(x, **fields) if x.name == layer else x for x in model.layers)
    return replace(model, layers=layers)


def test_shapes_of_every_layer(every_layer: FloatModel) -> None:
    shapes = prove_float(every_layer, "net")
    assert shapes["r0"] == (16, 16, 8)
    assert shapes["m2"] == (8, 8, 8)
    assert shapes["j3"] == (16, 16, 16)
    assert shapes["p3"] == (8, 8, 16)
    assert shapes["out"] == (1, 1, 10)


def test_inputs(every_layer: FloatModel) -> None:
    by_name = {x.name: x.sources for x in every_layer.layers}
    assert by_name["a1"] == ("r0", "c1")
    assert by_name["j3"] == ("r1", "u2")
    assert by_name["c0"] == ("input",)


@pytest.mark.parametrize(
    ("layer", "fields", "text"),
    [
        ("c0", {"input": "later"}, "reads 'later', expected the input or an earlier layer"),
        ("n0", {"name": "c0"}, "the name is already in use"),
        ("c0", {"weights": np.zeros((8, 3, 3, 4), np.float32)}, "does not fit 3 input channels"),
        ("c0", {"weights": np.zeros((8, 3, 3), np.float32)}, "expected \\[O, KH, KW, I\\]"),
        ("c0", {"weights": np.full((8, 3, 3, 3), np.nan, np.float32)}, "weights holds NaN"),
        ("c0", {"weights": np.zeros((8, 3, 3, 3))}, "weights is float64, expected float32"),
        ("c0", {"weights": np.zeros((8, 64, 64, 3), np.float32)}, "the kernel has 64 rows, the padded input 34"),
        ("c0", {"stride": (0, 1)}, "the stride's rows is 0, expected 1"),
        ("c0", {"padding": (-1, 0, 0, 0)}, "the padding's rows is -1, expected 0 .. 2"),
        ("c0", {"padding": (0, 3, 0, 0)}, "the padding's columns is 3, expected 0 .. 2"),
        ("c1", {"groups": 3}, "in 3 groups"),
        ("c1", {"bias": np.zeros(7, np.float32)}, r"bias is float32 \[7\], expected float32 \[8\]"),
        ("n0", {"variance": np.full(8, -1, np.float32)}, "variance \\+ eps must be positive"),
        ("n0", {"eps": float("nan")}, "variance \\+ eps must be positive"),
        ("n0", {"gamma": np.ones(9, np.float32)}, "gamma is float32 \\[9\\], expected"),
        ("r0", {"ceiling": -1.0}, "ceiling is -1.0, expected a positive number"),
        ("a1", {"inputs": ("r0", "input")}, "expected equal ones"),
        ("j3", {"inputs": ("r1", "m2")}, "inputs have sizes"),
        ("p3", {"padding": (3, 0, 0, 0)}, "the padding's rows is 3, expected 0 .. 2"),
        ("u2", {"factor": (0, 2)}, "factor is 0, expected 1"),
        ("out", {"weights": np.zeros((10, 13), np.float32)}, r"weights take 13 inputs, found 12"),
        ("out", {"weights": np.zeros((9, 12), np.float32), "bias": None}, "one logit per label"),
    ],
)
def test_mismatched_layers_are_refused(every_layer: FloatModel, layer: str, fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=text) as error:
        prove_float(changed(every_layer, layer, fields), "net.safetensors")
    assert str(error.value).startswith("net.safetensors: ")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"outputs": ("nowhere",)}, "output 'nowhere' is no tensor"),
        ({"input_shape": (0, 32, 3)}, "a side of the input's shape is 0"),
        ({"scale": (0.0,)}, "scales above 0"),
        ({"mean": (float("inf"),)}, "finite numbers"),
    ],
)
def test_wrong_frame(every_layer: FloatModel, fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ModelError, match=text):
        prove_float(replace(every_layer, **fields), "net")


def test_smallest_network() -> None:
    layers = (Conv("c", "input", weights=np.ones((2, 1, 1, 1), np.float32)), Relu("r", "c"))
    model = FloatModel("m", (1, 1, 1), layers, ("r",), Classification(("a", "b")), colour="gray")
    assert prove_float(model, "net")["r"] == (1, 1, 2)
