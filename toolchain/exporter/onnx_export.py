"""From an integer model to an ONNX file of the QDQ form, which ONNX Runtime and others run."""

from pathlib import Path
from typing import Any

from edgemeta.model.atomic_write import write_atomically
from edgemeta.model.graph import INPUT, Model
from edgemeta.toolchain.errors import ExportError, MissingExtraError
from edgemeta.toolchain.exporter.onnx_layers import NotExpressibleError, write_layer
from edgemeta.toolchain.exporter.qdq_graph import OPSET, QdqGraph


def export_onnx(model: Model, path: Path) -> None:
    """Write the model as QDQ ONNX. Raises ExportError for layers that it cannot express, and an unwritable path.

    Input: "input", float32 [1, C, H, W], the real numbers scale * (q - zero point) of the input integers q. Outputs:
    real numbers, [1, C] of one pixel, else [1, C, H, W], named as the layers.
    """
    try:
        import onnx
    except ImportError:
        raise MissingExtraError("exporting ONNX needs onnx: install edgemeta[import]") from None
    graph, problems = _graph(model)
    if problems:
        raise ExportError(f"{model.name}: cannot be exported: {'; '.join(problems)}")
    height, width, channels = model.input.shape
    helper, real = onnx.helper, onnx.TensorProto.FLOAT
    outputs = []
    for name, kind in zip(model.outputs, model.output_types, strict=True):
        rows, columns, count = kind.shape
        is_row = (rows, columns) == (1, 1)
        graph.node("Flatten" if is_row else "Identity", [graph.dequantized[name]], f"{name}.output")
        shape = [1, count] if is_row else [1, count, rows, columns]
        outputs.append(helper.make_tensor_value_info(f"{name}.output", real, shape))
    image = helper.make_tensor_value_info(INPUT, real, [1, channels, height, width])
    proto: Any = helper.make_model(
        helper.make_graph(graph.nodes, model.name, [image], outputs, graph.constants),
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=8,
        producer_name="edgemeta",
    )
    helper.set_model_props(proto, {"labels": "\n".join(model.labels), "colour": model.preprocessing.colour})
    onnx.checker.check_model(proto)
    try:
        write_atomically(path, proto.SerializeToString())
    except OSError as error:
        raise ExportError(f"{path}: cannot be written ({error.strerror})") from None


def _graph(model: Model) -> tuple[QdqGraph, list[str]]:
    """The nodes of all layers, and why some have none."""
    graph, types, problems = QdqGraph(), {INPUT: model.input}, []
    for kind in (model.input, *(layer.output for layer in model.layers)):
        if kind.bits not in (8, 32):
            return graph, [f"it has tensors of {kind.bits} bits, expected 8"]
    graph.quantized(INPUT, model.input)
    for layer in model.layers:
        try:
            write_layer(graph, layer, types)
        except NotExpressibleError as error:
            problems.append(f"layer {layer.name!r} {error}")
            graph.dequantized[layer.name] = layer.name
        types[layer.name] = layer.output
    return graph, problems
