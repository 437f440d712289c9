"""Reads a TFLite file as plain records: nodes in execution order, constants, shapes and how tensors are quantized.

The schema package reads a number only where the file has one, so that a damaged file gives an exception at worst; what
this module checks beside is that no list or text is longer than the file, and that constants have their shapes' size.
"""

import re
import struct
from collections.abc import Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.toolchain.errors import ImportedFileError, MissingExtraError
from edgemeta.toolchain.importer.network import SIXTEEN_BITS, Array, ImageShape, Network, Node, Order, Quantization
from edgemeta.toolchain.importer.patterns import with_patterns
from edgemeta.toolchain.importer.stored_names import of_archive
from edgemeta.toolchain.importer.tflite_metadata import METADATA, stored_pixels
from edgemeta.toolchain.importer.tflite_patterns import with_dilations, with_shapes_known
from edgemeta.toolchain.importer.tflite_sparse import dense

IDENTIFIER = b"TFL3"
"""Of every TFLite file, at its fifth byte."""
ACCELERATORS = ("edgetpu-custom-op", "ethos-u", "NeutronGraph")
"""Custom operators that hold a program of an accelerator: those of Coral's, Arm's and NXP's compilers."""
MAX_OPERATIONS, MAX_TENSORS, MAX_NAME, MAX_RANK = 10_000, 100_000, 10_000, 8

_OPTIONS: Mapping[str, str] = {
    "CONV_2D": "Conv2DOptions padding stride_w stride_h dilation_w_factor dilation_h_factor act",
    "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions padding stride_w stride_h dilation_w_factor dilation_h_factor act",
    "TRANSPOSE_CONV": "TransposeConvOptions padding stride_w stride_h act",
    "AVERAGE_POOL_2D": "Pool2DOptions padding stride_w stride_h filter_width filter_height act",
    "MAX_POOL_2D": "Pool2DOptions padding stride_w stride_h filter_width filter_height act",
    "FULLY_CONNECTED": "FullyConnectedOptions weights_format keep_num_dims act",
    "CONCATENATION": "ConcatenationOptions axis act",
    "ADD": "AddOptions act",
    "BATCH_MATMUL": "BatchMatMulOptions adj_x adj_y",
    "SUB": "SubOptions act",
    "MUL": "MulOptions act",
    "DIV": "DivOptions act",
    "MEAN": "ReducerOptions keep_dims",
    "RESIZE_BILINEAR": "ResizeBilinearOptions align_corners half_pixel_centers",
    "RESIZE_NEAREST_NEIGHBOR": "ResizeNearestNeighborOptions align_corners half_pixel_centers",
    "LEAKY_RELU": "LeakyReluOptions alpha",
    "GELU": "GeluOptions approximate",
    "L2_NORMALIZATION": "L2NormOptions act",
    "LOCAL_RESPONSE_NORMALIZATION": "LocalResponseNormalizationOptions radius bias alpha beta",
    "DEPTH_TO_SPACE": "DepthToSpaceOptions block_size",
    "SPACE_TO_DEPTH": "SpaceToDepthOptions block_size",
    "GATHER": "GatherOptions axis batch_dims",
    "MIRROR_PAD": "MirrorPadOptions mode",
    "PACK": "PackOptions axis",
    "UNPACK": "UnpackOptions axis",
    "REDUCE_MAX": "ReducerOptions keep_dims",
    "SUM": "ReducerOptions keep_dims",
    "REDUCE_MIN": "ReducerOptions keep_dims",
    "STRIDED_SLICE": "StridedSliceOptions begin_mask end_mask ellipsis_mask new_axis_mask shrink_axis_mask",
}
"""The record of an operator's options, and which of them count; `act` is the fused activation."""
RECORDS = {"CUSTOM Convolution2DTransposeBias": ("padding_of_c", "stride_w", "stride_h")}
"""Options of MediaPipe's custom operators, 32 bits each; padding_of_c: 1 for SAME, 2 for VALID."""
_CAMEL = {"act": "FusedActivationFunction"}


def read_tflite(path: Path, size: tuple[int, int] | None = None) -> Network:
    """Read a file. size: H, W, which must be the file's. Raises ImportedFileError."""
    try:
        import tflite
    except ImportError:
        raise MissingExtraError("importing TFLite needs tflite: install edgemeta[import]") from None
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ImportedFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    try:
        if data[4:8] != IDENTIFIER:
            raise _DamagedError("it has no identifier TFL3")
        reader = _Reader(tflite, data)
        if made_for := reader.accelerator():
            raise ImportedFileError(
                f"{path}: is compiled for an accelerator (custom operator {made_for}), its layers in that one's code: "
                "import the .tflite file that was given to the compiler"
            )
        network = replace(reader.network(path.stem), stored=replace(of_archive(data), pixels=reader.pixels()))
        network = with_patterns(network)
    except ImportedFileError:
        raise
    except _OtherFormError as error:
        raise ImportedFileError(f"{path}: {error}") from None
    except _OtherInputError as error:
        raise ImportedFileError(f"{path}: takes no image: {error}") from None
    except _DamagedError as error:
        raise ImportedFileError(f"{path}: found no TFLite network that can be read ({error})") from None
    except (struct.error, ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError):
        raise ImportedFileError(
            f"{path}: found no TFLite network that can be read (a place or length in it leads out of it)"
        ) from None
    found = network.input_shape[2:]
    if size is not None and size != found:
        raise ImportedFileError(f"{path}: the input is {found[0]}x{found[1]}, found --size {size[0]}x{size[1]}")
    return network


def is_tflite(path: Path) -> bool:
    """Whether a file has the identifier of TFLite. Raises OSError."""
    with path.open("rb") as file:
        return file.read(8)[4:] == IDENTIFIER


class _DamagedError(Exception):
    """What is wrong with a file."""


class _OtherFormError(Exception):
    """What a file has in a form that is not read."""


class _OtherInputError(Exception):
    """What a network takes that is no image."""


class _Reader:
    """Reads the first subgraph of a file's bytes. Raises _DamagedError, or what NumPy, struct and flatbuffers raise."""

    def __init__(self, schema: Any, data: bytes) -> None:
        self.schema, self.data = schema, data
        self.model = schema.Model.GetRootAs(data, 0)
        self.graph = self.model.Subgraphs(0)
        self.kinds = _names(schema.TensorType)
        self.ops = _names(schema.BuiltinOperator)
        self.names: list[str] = []
        self.constants: dict[str, Array] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.quantization: dict[str, Quantization] = {}
        self.notes: tuple[str, ...] = ()

    def accelerator(self) -> str:
        """The custom operator of an accelerator's program, "" where there is none."""
        count = self._length(self.model.OperatorCodesLength(), "operator codes", MAX_OPERATIONS)
        custom = [_custom(self.model.OperatorCodes(number)) for number in range(count)]
        return next((name for name in custom if name in ACCELERATORS), "")

    def pixels(self) -> dict[str, tuple[float, ...]]:
        """What the metadata says of them."""
        count = self._length(self.model.MetadataLength(), "metadata", MAX_OPERATIONS)
        entries = (self.model.Metadata(number) for number in range(count))
        texts = [self._buffer(each) for each in entries if each.Name() == METADATA]
        return stored_pixels(bytes(texts[0].DataAsNumpy())) if texts and texts[0].DataLength() else {}

    def network(self, name: str) -> Network:
        """All of it."""
        if self.model.Version() != 3 or self.model.SubgraphsLength() != 1:
            raise _DamagedError(
                f"version {self.model.Version()} with {self.model.SubgraphsLength()} subgraphs, expected 3 with one"
            )
        self._tensors()
        inputs, outputs = self._numbers(self.graph.InputsAsNumpy()), self._numbers(self.graph.OutputsAsNumpy())
        if len(inputs) != 1 or not outputs:
            found = f"it has {len(inputs)} inputs and {len(outputs)} outputs"
            raise _OtherInputError(f"{found}, expected one image and some outputs")
        image = self.names[inputs[0]]
        shape, order = _image_shape(self.shapes[image])
        count = self._length(self.graph.OperatorsLength(), "operations", MAX_OPERATIONS)
        nodes = [self._node(self.graph.Operators(i), i) for i in range(count)]
        results = tuple(dict.fromkeys(self.names[i] for i in outputs))
        kept = self._unfolded(nodes)
        return Network(
            name, image, shape, results, kept, self.constants, self.shapes, order, self.quantization, self.notes
        )

    def _tensors(self) -> None:
        count, room = self._length(self.graph.TensorsLength(), "tensors", MAX_TENSORS), 4 * len(self.data)
        tensors = [self.graph.Tensors(number) for number in range(count)]
        self.names = self._tensor_names(tensors)
        for tensor, name in zip(tensors, self.names, strict=True):
            if self._length(tensor.ShapeLength(), "axes", MAX_RANK):
                self.shapes[name] = tuple(int(side) for side in tensor.ShapeAsNumpy())
            else:
                self.shapes[name] = ()
            if 0 in self.shapes[name] and min(self.shapes[name]) == 0:
                raise _OtherInputError(f"tensor {name!r} has no elements, as those of a network with memory (LSTM)")
            if self.shapes[name] and min(self.shapes[name]) < 1:
                raise _DamagedError(f"tensor {name!r} has the shape {self.shapes[name]}")
            room -= self._contents(tensor, name)
            if room < 0:
                raise _DamagedError("its constants take more than the file has")
        if self.notes:
            self.quantization = {}

    def _tensor_names(self, tensors: list[Any]) -> list[str]:
        """A name for each tensor: the first of those that a converter joined. Computed tensors choose first."""
        names, used = [""] * len(tensors), {""}
        for number in sorted(range(len(tensors)), key=lambda number: self._buffer(tensors[number]).DataLength() > 0):
            given = tensors[number].Name() or b""
            if len(given) > MAX_NAME:
                raise _DamagedError(f"a name of {len(given)} bytes")
            first = given.decode("utf-8", "replace").split(";")[0]
            names[number] = first if first not in used else f"{first} ({number})".strip()
            used.add(names[number])
        return names

    def _contents(self, tensor: Any, name: str) -> int:
        """Note a tensor's constant and quantization; returns the bytes of the constant."""
        kind = self.kinds.get(tensor.Type(), "?")
        buffer = self._buffer(tensor)
        size = self._length(buffer.DataLength(), "bytes of a constant", len(self.data))
        stored = None
        if size and (sparsity := tensor.Sparsity()) is not None and kind in _DTYPES:
            values = np.frombuffer(buffer.DataAsNumpy().tobytes(), np.dtype(_DTYPES[kind]))
            stored = dense(self.schema, sparsity, values, self.shapes[name])
            if stored is None:
                raise _DamagedError(f"constant {name!r} is stored sparsely, in places that its shape has not")
            size = stored.nbytes
        elif size:
            stored = _stored(kind, buffer.DataAsNumpy(), self.shapes[name], name)
        quantization = self._quantization(tensor, kind, stored)
        if kind == "INT16" and quantization is not None and stored is None:
            self.notes = (SIXTEEN_BITS,)
        if stored is not None:
            self.constants[name] = stored if quantization is None else _real(quantization, stored, tensor)
        if quantization is not None:
            self.quantization[name] = quantization
        return size

    def _buffer(self, tensor: Any) -> Any:
        number = tensor.Buffer()
        if number >= self._length(self.model.BuffersLength(), "buffers", MAX_TENSORS):
            raise _DamagedError(f"a tensor is in buffer {number}, which does not exist")
        return self.model.Buffers(number)

    def _quantization(self, tensor: Any, kind: str, stored: Array | None) -> Quantization | None:
        given = tensor.Quantization()
        if given is None or kind not in ("INT8", "UINT8", "INT16", "INT32", "INT64"):
            return None
        count = self._length(given.ScaleLength(), "scales", len(self.data))
        if not count:
            return None
        scale = given.ScaleAsNumpy().astype(np.float64)
        zeros = given.ZeroPointAsNumpy() if given.ZeroPointLength() else 0
        zero_point = np.broadcast_to(np.asarray(zeros, np.int64), scale.shape)
        if not (np.isfinite(scale).all() and (scale >= 0).all()):
            raise _DamagedError("a scale that is not finite or below 0")
        return Quantization(scale, zero_point, kind != "UINT8", stored)

    def _node(self, operation: Any, number: int) -> Node:
        which = operation.OpcodeIndex()
        if which >= self._length(self.model.OperatorCodesLength(), "operator codes", MAX_OPERATIONS):
            raise _DamagedError(f"operation {number} has the code {which}, which does not exist")
        code = self.model.OperatorCodes(which)
        builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
        op = self.ops.get(builtin, f"operator {builtin}")
        custom: dict[str, Any] = {}
        if op == "CUSTOM":
            op = f"CUSTOM {_custom(code)}"
            custom = self._custom(operation, op)
        inputs = tuple(self.names[i] if i >= 0 else "" for i in self._numbers(operation.InputsAsNumpy(), least=-1))
        outputs = tuple(self.names[i] for i in self._numbers(operation.OutputsAsNumpy()))
        if not outputs:
            raise _DamagedError(f"operation {number} has no outputs")
        return Node(op, f"{number} ({outputs[0]})", inputs, outputs, self._attributes(operation, op) | custom)

    def _custom(self, operation: Any, op: str) -> dict[str, Any]:
        """The options of a custom operator: a map in FlexBuffers, as TensorFlow writes them, or a record of C."""
        from flatbuffers import flexbuffers

        data = operation.CustomOptionsAsNumpy() if operation.CustomOptionsLength() else b""
        if op in RECORDS:
            return dict(zip(RECORDS[op], struct.unpack(f"<{len(RECORDS[op])}i", bytes(data)), strict=True))
        try:
            found = flexbuffers.Loads(bytes(data)) if 0 < len(data) <= MAX_NAME else {}
        except Exception:  # noqa: BLE001 (options of any form; an operator that needs them says what is missing)
            return {}
        return found if isinstance(found, dict) else {}

    def _unfolded(self, nodes: list[Node]) -> tuple[Node, ...]:
        """The nodes without those that only dequantize a constant (16-bit weights), dilated convolutions as one."""
        kept = []
        for node in nodes:
            if node.op in ("DEQUANTIZE", "DENSIFY") and node.inputs[0] in self.constants:
                self.constants[node.outputs[0]] = self.constants[node.inputs[0]].astype(np.float32)
            else:
                kept.append(node)
        return with_dilations(with_shapes_known(kept, self.constants, self.shapes), self.constants, self.shapes)

    def _attributes(self, operation: Any, op: str) -> dict[str, Any]:
        kind = operation.BuiltinOptionsType()
        if op not in _OPTIONS or kind == 0:
            return {}
        record, *fields = _OPTIONS[op].split()
        if kind != getattr(self.schema.BuiltinOptions, record):
            raise _DamagedError(f"{op} with options of another operator")
        options, table = getattr(self.schema, record)(), operation.BuiltinOptions()
        options.Init(table.Bytes, table.Pos)
        return {field: getattr(options, _CAMEL.get(field) or _camel(field))() for field in fields}

    def _numbers(self, numbers: Any, least: int = 0) -> list[int]:
        """Numbers of tensors."""
        found = [int(number) for number in numbers] if isinstance(numbers, np.ndarray) else []
        if any(not least <= number < len(self.names) for number in found):
            raise _DamagedError("a tensor that does not exist is used")
        return found

    def _length(self, length: int, what: str, most: int) -> int:
        if length > min(most, len(self.data)):
            raise _DamagedError(f"{length} {what}, expected at most {min(most, len(self.data))}")
        return length


def _names(enumeration: Any) -> dict[int, str]:
    return {value: name for name, value in vars(enumeration).items() if isinstance(value, int)}


def _custom(code: Any) -> str:
    return bytes(code.CustomCode() or b"")[:60].decode("utf-8", "replace")


def _camel(field: str) -> str:
    return re.sub(r"(?:^|_)(\w)", lambda found: found[1].upper(), field)


_DTYPES: Mapping[str, str] = {
    "FLOAT32": "<f4",
    "FLOAT16": "<f2",
    "FLOAT64": "<f8",
    "INT8": "i1",
    "UINT8": "u1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
}


def _stored(kind: str, data: NDArray[np.uint8], shape: tuple[int, ...], name: str) -> Array | None:
    """The constant as it is stored; None for kinds that no operator here reads."""
    if kind not in _DTYPES:
        return None
    dtype = np.dtype(_DTYPES[kind])
    if prod(shape) * dtype.itemsize != len(data):
        raise _DamagedError(f"constant {name!r} of shape {shape} and type {kind} has {len(data)} bytes")
    return data.view(dtype).reshape(shape)


def _real(quantization: Quantization, stored: Array, tensor: Any) -> Array:
    """The real numbers of a quantized constant, float32."""
    scale, zero = quantization.scale, quantization.zero_point
    if len(scale) > 1:
        axis = (
            tensor.Quantization().QuantizedDimension() if stored.ndim > 1 else 0
        )  # some converters give a bias axis 3
        if not 0 <= axis < stored.ndim or stored.shape[axis] != len(scale):
            raise _DamagedError(f"{len(scale)} scales for a constant of shape {stored.shape}")
        sides = [1] * stored.ndim
        sides[axis] = -1
        scale, zero = scale.reshape(sides), zero.reshape(sides)
    with np.errstate(over="ignore"):  # a damaged scale gives infinite numbers, which are refused with the layer's name
        real: Array = ((stored.astype(np.float64) - zero) * scale).astype(np.float32)
    return real


def _image_shape(shape: tuple[int, ...]) -> tuple[ImageShape, Order]:
    """N, C, H, W and where the channels are: at the end, as TFLite has them, or in front, as converters leave them."""
    if len(shape) != 4 or shape[0] != 1:
        raise _OtherInputError(f"its input has the shape {shape}, expected 1, H, W, C")
    _, first, second, third = shape
    if third <= 4:
        return (1, third, first, second), "hwc"
    if first <= 4:
        return (1, first, second, third), "chw"
    raise _OtherInputError(f"its input has the shape {shape}, expected 1 to 4 channels")
