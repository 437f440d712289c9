"""Joining of batch norm and activation to the layer before them."""

from typing import Any

import numpy as np

from edgemeta.model.float_reference import all_tensors, network_input
from edgemeta.model.graph import FloatModel
from edgemeta.model.layers import Conv, Dense, Relu
from edgemeta.toolchain.quantize.blocks import blocks_of, folded


def test_fused_layers(every_layer: FloatModel) -> None:
    blocks = {b.name: b for b in blocks_of(every_layer)}
    assert list(blocks) == ["c0", "c1", "a1", "m2", "c2", "u2", "j3", "r3", "p3", "n4", "g5", "d6", "out"]
    assert (blocks["c0"].before, blocks["c0"].after) == ("n0", "r0")
    assert blocks["c1"].inputs == ("c0",)
    assert blocks["a1"].inputs == ("c0", "c1")
    assert blocks["a1"].relu is not None
    assert blocks["m2"].relu is None
    assert isinstance(blocks["r3"].core, Relu)
    assert blocks["c2"].norm is not None
    assert isinstance(blocks["n4"].core, Conv)
    assert blocks["n4"].core.groups == 16
    assert blocks["out"].after == every_layer.output


def test_a_tensor_with_two_readers_is_not_fused(every_layer: FloatModel) -> None:
    layers = [*every_layer.layers]
    layers[4] = type(layers[4])("a1", ("n0", "c1"))  # type: ignore[call-arg]
    changed = FloatModel("m", (32, 32, 3), tuple(layers), ("out",), every_layer.task)
    blocks = {b.name: b for b in blocks_of(changed)}
    assert blocks["c0"].relu is None
    assert blocks["r0"].inputs == ("c0",)
    assert blocks["a1"].inputs == ("c0", "c1")


def test_folded_weights_give_the_same_tensors(every_layer: FloatModel, pixels: Any) -> None:
    tensors = all_tensors(every_layer, network_input(every_layer, pixels))
    produced = {b.name: b.after for b in blocks_of(every_layer)} | {"input": "input"}
    for block in blocks_of(every_layer):
        if isinstance(block.core, Conv | Dense):
            weight, bias = folded(block)
            kind = type(block.core)
            layer = kind(**{**block.core.__dict__, "weights": weight, "bias": bias})
            out = layer.reals([tensors[produced[block.inputs[0]]]])
            np.testing.assert_allclose(out, tensors[block.before], rtol=1e-3, atol=1e-4, err_msg=block.name)
