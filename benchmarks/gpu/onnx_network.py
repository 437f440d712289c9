"""The float network as ONNX for TensorRT, batch norm folded: written by `onnx` alone, without PyTorch's exporter."""

from typing import Any

import numpy as np

from edgemeta.model.graph import INPUT, FloatModel
from edgemeta.model.layers import Add, Conv, Dense, GlobalAverage
from edgemeta.toolchain.quantize.blocks import blocks_of, folded

OPSET = 17


def onnx_network(model: FloatModel, images: int, kind: str) -> bytes:
    """An ONNX file from [images, C, H, W] to [images, labels]; kind: "float32" or "float16", of all tensors.

    Raises ImportError without onnx, and ValueError for layers that ResNet-8 does not have.
    """
    from onnx import checker, helper, numpy_helper

    height, width, channels = model.input_shape
    real = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    nodes: list[Any] = []
    constants: list[Any] = []
    for block in blocks_of(model):
        core, sources, options = block.core, list(block.inputs), {}
        if isinstance(core, (Conv, Dense)):
            weights, bias = folded(block)
            if isinstance(core, Conv):
                operator, weights = "Conv", weights.transpose(0, 3, 1, 2)  # ours are [out, K, K, in]
                options = {"strides": core.stride, "pads": core.padding, "group": core.groups}
            else:
                operator, options = "Gemm", {"transB": 1}
            for suffix, values in (("weights", weights), ("bias", bias)):
                constants.append(numpy_helper.from_array(np.asarray(values, kind), f"{block.name}.{suffix}"))
                sources.append(constants[-1].name)
        elif isinstance(core, Add):
            operator = "Add"
        elif isinstance(core, GlobalAverage):
            nodes.append(helper.make_node("GlobalAveragePool", sources, [f"{block.name}.mean"]))
            operator, sources = "Flatten", [f"{block.name}.mean"]
        else:
            raise ValueError(f"{block.name}: not written as ONNX here: {type(core).__name__}")
        made = f"{block.name}.before" if block.relu else block.name
        nodes.append(helper.make_node(operator, sources, [made], **options))
        if block.relu:
            nodes.append(helper.make_node("Relu", [made], [block.name]))
    image = helper.make_tensor_value_info(INPUT, real, [images, channels, height, width])
    logits = helper.make_tensor_value_info(nodes[-1].output[0], real, [images, len(model.labels)])
    graph = helper.make_graph(nodes, model.name, [image], [logits], constants)
    proto: Any = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=8)
    checker.check_model(proto)
    content: bytes = proto.SerializeToString()
    return content
