"""Numbers that an ONNX network computes from its shapes are constants, and change no result."""

import numpy as np
import onnx
import onnxruntime

from edgemeta.toolchain.importer.folding import with_known_shapes

WINDOWS = """
<ir_version: 8, opset_import: ["" : 17]>
swin (float[1,6,9,8] x) => (float[1,6,w,7,c] y) <
    int64[1] second = {2}, int64[1] seven = {7}, int64[6] zeros = {0,0,0,0,0,0}, int64[1] zero = {0},
    int64[2] first = {1,6}, int64[2] last = {7,-1}
> {
    shape = Shape(x)
    rows = Gather(shape, second)
    over = Mod(rows, seven)
    less = Sub(seven, over)
    missing = Mod(less, seven)
    amounts = Concat <axis = 0> (zeros, missing, zero)
    filled = Pad(x, amounts)
    again = Shape(filled)
    side = Gather(again, second)
    windows = Div(side, seven)
    sides = Concat <axis = 0> (first, windows, last)
    y = Reshape(filled, sides)
}
"""
"""Rows filled up to whole windows, whose number is computed from the shape again."""


def test_sides_that_are_computed() -> None:
    image = np.random.default_rng(0).normal(0, 1, (1, 6, 9, 8)).astype(np.float32)
    model = onnx.parser.parse_model(WINDOWS)
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": image})
    folded = with_known_shapes(model)
    assert [node.op_type for node in folded.graph.node] == ["Pad", "Reshape"]
    assert [dim.dim_value for dim in folded.graph.output[0].type.tensor_type.shape.dim] == [1, 6, 2, 7, 8]
    (found,) = onnxruntime.InferenceSession(folded.SerializeToString()).run(None, {"x": image})
    assert np.array_equal(found, wanted)
