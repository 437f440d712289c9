"""Reads an ONNX file as plain records: nodes in execution order, constants, and the shape of every tensor.

`onnxslim` folds constants, batch norms and no-operations first, so that the rest sees few kinds of nodes.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from edgemeta.toolchain.child import in_child
from edgemeta.toolchain.errors import ImportedFileError, MissingExtraError
from edgemeta.toolchain.importer.folding import with_known_shapes
from edgemeta.toolchain.importer.heads.ends import require_tensors
from edgemeta.toolchain.importer.network import SIXTEEN_BITS, Array, Network, Node, Quantization
from edgemeta.toolchain.importer.onnx_input import ImageInput, image_input
from edgemeta.toolchain.importer.onnx_weights import skeleton_of, take_weights
from edgemeta.toolchain.importer.other_forms import QuantizedFormError
from edgemeta.toolchain.importer.patterns import with_patterns
from edgemeta.toolchain.importer.qdq import take_out
from edgemeta.toolchain.importer.stored_names import of_metadata

MAX_BYTES = (1 << 31) - 1
"""Greatest file; protobuf reads no more."""
_LAST_AXIS = 13
"""Version of the operators from which on a softmax without an axis goes over the last one, before the second one."""
_MEMORY, _SECONDS = 1 << 31, 300.0
"""Bytes, beside 16 times those of the file, and time in which a file must be simplified."""
_FUSIONS = ["graph_fusion", "subexpression_elimination", "weight_tying"]
"""What onnxslim leaves out for a quantized network, whose tensors must keep their numbers and names."""


def read_onnx(path: Path, size: tuple[int, int] | None = None, outputs: tuple[str, ...] = ()) -> Network:
    """Read and simplify a file. Raises ImportedFileError.

    size: H, W where the file leaves them open. outputs: tensors that are the outputs instead of the file's.
    """
    try:
        import onnx
        import onnxslim  # noqa: F401 (the child needs it)
    except ImportError as error:
        raise MissingExtraError(f"importing ONNX needs {error.name}: install edgemeta[import]") from None
    proto: Any = None
    try:
        length = path.stat().st_size
        skeleton = skeleton_of(path) if length <= MAX_BYTES else None
        if skeleton is not None:
            proto = onnx.load_from_string(skeleton.data)
            onnx.load_external_data_for_model(proto, str(path.parent))
        elif length <= MAX_BYTES:
            proto = onnx.load(str(path))
    except OSError as error:
        raise ImportedFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    except Exception as error:  # noqa: BLE001 (protobuf and onnx raise anything on damaged files)
        raise ImportedFileError(f"{path}: found no ONNX network ({_one_line(error)})") from None
    if proto is None:
        raise ImportedFileError(f"{path}: has {length} bytes, expected at most {MAX_BYTES}")
    if not proto.graph.node:
        raise ImportedFileError(f"{path}: found no ONNX network (no nodes)")
    stored = of_metadata({each.key: each.value for each in proto.metadata_props})
    image = image_input(proto, path, size, stored.size)
    _set_outputs(proto, path, outputs)
    weights = take_weights(proto, path, skeleton.places if skeleton else {})
    try:
        slim, quantization, is_wide = in_child(lambda: _slim(proto, image), _MEMORY + 16 * length, _SECONDS)
        plain = _plain(onnx.load_from_string(slim), image, weights)
    except Exception as error:  # noqa: BLE001 (as above)
        raise ImportedFileError(f"{path}: the network is not consistent ({_one_line(error)})") from None
    if isinstance(quantization, str):
        raise ImportedFileError(f"{path}: {quantization}")
    notes = (SIXTEEN_BITS,) if is_wide else ()
    plain = replace(plain, quantization=quantization, notes=notes, stored=stored)
    return plain if quantization else with_patterns(plain)


def _slim(proto: Any, image: ImageInput) -> tuple[bytes, dict[str, Quantization] | str, bool]:
    """The simplified network, how its tensors are quantized, or why that is not read, and if they have 16 bits."""
    import onnxslim

    try:
        quantization, is_wide = take_out(proto)
    except QuantizedFormError as error:
        return b"", str(error), False
    _write_out_axes(proto)
    skipped = _FUSIONS if quantization else None
    sizes = [f"{image.name}:{','.join(map(str, image.sides))}"]
    slim = onnxslim.slim(proto, input_shapes=sizes, skip_optimizations=skipped)
    return with_known_shapes(slim).SerializeToString(), quantization, is_wide


def _write_out_axes(proto: Any) -> None:
    """Resize of some axes, as from opset 18 on, becomes one of all axes, which onnxslim and shape inference know."""
    import onnx

    chosen = [node for node in proto.graph.node if node.op_type == "Resize" and len(node.input) > 2]
    axes = {node.output[0]: each.ints for node in chosen for each in node.attribute if each.name == "axes"}
    if not axes:
        return
    inferred = onnx.shape_inference.infer_shapes(proto).graph
    shapes = {each.name: [dim.dim_value for dim in each.type.tensor_type.shape.dim] for each in inferred.value_info}
    numbers = {each.name: onnx.numpy_helper.to_array(each) for each in proto.graph.initializer}
    for node in chosen:
        place, start = (2, np.ones(4, np.float32)) if node.input[2] else (3, np.array(shapes.get(node.input[0], ())))
        given = numbers.get(node.input[place])
        if node.output[0] not in axes or given is None or start.size != 4:
            continue
        start[list(axes[node.output[0]])] = given
        name = f"{node.output[0]} {place}"
        proto.graph.initializer.append(onnx.numpy_helper.from_array(start, name))
        node.input[place] = name
        del node.attribute[[each.name for each in node.attribute].index("axes")]


def _set_outputs(proto: Any, path: Path, outputs: tuple[str, ...]) -> None:
    """Make other tensors the outputs of a graph."""
    import onnx

    require_tensors(path, outputs, [name for node in proto.graph.node for name in node.output])
    if outputs:
        del proto.graph.output[:]
        made = (onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs)
        proto.graph.output.extend(made)


def _plain(proto: Any, image: ImageInput, weights: Mapping[str, Array]) -> Network:
    import onnx

    graph = proto.graph
    constants = {**weights} | {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    nodes, is_old = [], any(each.domain == "" and each.version < _LAST_AXIS for each in proto.opset_import)
    for each in graph.node:
        attributes = {item.name: _value(onnx.helper.get_attribute_value(item)) for item in each.attribute}
        if each.op_type == "Constant":
            constants[each.output[0]] = next(np.asarray(value) for value in attributes.values())
            continue
        if each.op_type in ("Softmax", "LogSoftmax"):
            attributes.setdefault("axis", 1 if is_old else -1)
        nodes.append(Node(each.op_type, each.name, tuple(each.input), tuple(each.output), attributes))
    shapes: dict[str, tuple[int, ...]] = {key: value.shape for key, value in constants.items()}
    for info in (*graph.input, *graph.value_info, *graph.output):
        dims = info.type.tensor_type.shape.dim
        if info.type.tensor_type.HasField("shape") and all(dim.dim_value > 0 for dim in dims):
            shapes[info.name] = tuple(dim.dim_value for dim in dims)
    shapes[image.name] = image.sides
    outputs = tuple(each.name for each in graph.output)
    return Network(graph.name, image.name, image.shape, outputs, tuple(nodes), constants, shapes, image.order)


def _value(value: Any) -> Any:
    import onnx

    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value)
    if isinstance(value, int | float):
        return value
    return (
        tuple(_value(each) for each in value) if isinstance(value, list | tuple) or hasattr(value, "__iter__") else None
    )


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:200] or type(error).__name__
