"""Writes small TFLite files for tests, with the schema package's own functions."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import tflite
from flatbuffers import flexbuffers
from numpy.typing import NDArray

_KINDS = {"float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "int16": 7, "int8": 9}


@dataclass(frozen=True)
class Scale:
    """Quantization of a tensor; several scales lie along an axis."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...] = (0,)
    axis: int = 0


@dataclass
class TfliteNet:
    """A network with one subgraph. Tensors are named t0, t1 and so on."""

    tensors: list[tuple[str, tuple[int, ...], str, NDArray[Any] | None, Scale | None]] = field(default_factory=list)
    operations: list[tuple[str, list[int], list[int], str | None, dict[str, Any]]] = field(default_factory=list)

    def tensor(self, shape: tuple[int, ...], kind: str = "float32", scale: Scale | None = None) -> int:
        self.tensors.append((f"t{len(self.tensors)}", shape, kind, None, scale))
        return len(self.tensors) - 1

    def constant(self, values: Any, scale: Scale | None = None) -> int:
        array = np.asarray(values)
        self.tensors.append((f"t{len(self.tensors)}", array.shape, str(array.dtype), array, scale))
        return len(self.tensors) - 1

    def __call__(
        self,
        op: str,
        inputs: list[int],
        shape: tuple[int, ...] | list[tuple[int, ...]],
        options: str | None = None,
        scale: Scale | None = None,
        kind: str | None = None,
        **attributes: Any,
    ) -> int:
        """Append an operation; the number of its first result, whose type is that of its first computed input."""
        source = next(number for number in inputs if number >= 0 and self.tensors[number][3] is None)
        kind, scale = kind or self.tensors[source][2], scale or self.tensors[source][4]
        shapes = shape if isinstance(shape, list) else [shape]
        results = [self.tensor(each, kind, scale) for each in shapes]
        self.operations.append((op, inputs, results, options, attributes))
        return results[0]

    def write(self, path: Path, image: int, outputs: list[int], metadata: bytes = b"") -> Path:
        build = flatbuffers.Builder(1024)
        buffers = [self._buffer(build, np.frombuffer(metadata, np.uint8) if metadata else None)]
        tensors = []
        for name, shape, kind, values, scale in self.tensors:
            buffers.append(self._buffer(build, values))
            tensors.append(self._tensor(build, name, shape, _KINDS[kind], len(buffers) - 1, scale))
        codes = [self._code(build, op) for op, *_ in self.operations]
        operations = [self._operation(build, i, *each) for i, each in enumerate(self.operations)]
        graph = self._graph(build, tensors, operations, image, outputs)
        graphs, tables = _offsets(build, [graph]), _offsets(build, buffers)
        entries = _offsets(build, [self._metadata(build)] if metadata else [])
        codes_vector = _offsets(build, codes)
        tflite.ModelStart(build)
        tflite.ModelAddVersion(build, 3)
        tflite.ModelAddOperatorCodes(build, codes_vector)
        tflite.ModelAddSubgraphs(build, graphs)
        tflite.ModelAddBuffers(build, tables)
        tflite.ModelAddMetadata(build, entries)
        build.Finish(tflite.ModelEnd(build), file_identifier=b"TFL3")
        path.write_bytes(bytes(build.Output()))
        return path

    def _buffer(self, build: Any, values: NDArray[Any] | None) -> int:
        data = None if values is None else build.CreateByteVector(np.ascontiguousarray(values).tobytes())
        tflite.BufferStart(build)
        if data is not None:
            tflite.BufferAddData(build, data)
        return int(tflite.BufferEnd(build))

    def _metadata(self, build: Any) -> int:
        """Which the first buffer holds."""
        title = build.CreateString("TFLITE_METADATA")
        tflite.MetadataStart(build)
        tflite.MetadataAddName(build, title)
        tflite.MetadataAddBuffer(build, 0)
        return int(tflite.MetadataEnd(build))

    def _tensor(
        self, build: Any, name: str, shape: tuple[int, ...], kind: int, buffer: int, scale: Scale | None
    ) -> int:
        text, sides = build.CreateString(name), build.CreateNumpyVector(np.array(shape, np.int32))
        known = None
        if scale is not None:
            scales = build.CreateNumpyVector(np.array(scale.scale, np.float32))
            zeros = build.CreateNumpyVector(np.array(np.resize(scale.zero_point, len(scale.scale)), np.int64))
            tflite.QuantizationParametersStart(build)
            tflite.QuantizationParametersAddScale(build, scales)
            tflite.QuantizationParametersAddZeroPoint(build, zeros)
            tflite.QuantizationParametersAddQuantizedDimension(build, scale.axis)
            known = tflite.QuantizationParametersEnd(build)
        tflite.TensorStart(build)
        tflite.TensorAddShape(build, sides)
        tflite.TensorAddType(build, kind)
        tflite.TensorAddBuffer(build, buffer)
        tflite.TensorAddName(build, text)
        if known is not None:
            tflite.TensorAddQuantization(build, known)
        return int(tflite.TensorEnd(build))

    def _code(self, build: Any, op: str) -> int:
        op, _, custom = op.partition(" ")
        code, text = getattr(tflite.BuiltinOperator, op), build.CreateString(custom)
        tflite.OperatorCodeStart(build)
        tflite.OperatorCodeAddDeprecatedBuiltinCode(build, min(code, 127))
        tflite.OperatorCodeAddBuiltinCode(build, code)
        tflite.OperatorCodeAddVersion(build, 2 if op == "BROADCAST_TO" else 1)
        if custom:
            tflite.OperatorCodeAddCustomCode(build, text)
        return int(tflite.OperatorCodeEnd(build))

    def _operation(
        self,
        build: Any,
        number: int,
        op: str,
        inputs: list[int],
        outputs: list[int],
        options: str | None,
        attributes: dict[str, Any],
    ) -> int:
        sources = build.CreateNumpyVector(np.array(inputs, np.int32))
        results = build.CreateNumpyVector(np.array(outputs, np.int32))
        record, custom = None, None
        if options is None and attributes:
            custom = build.CreateByteVector(attributes.get("record") or flexbuffers.Dumps(attributes))
        if options is not None:
            given = {
                key: build.CreateNumpyVector(np.array(value, np.int32)) if isinstance(value, list) else value
                for key, value in attributes.items()
            }
            getattr(tflite, f"{options}Start")(build)
            for key, value in given.items():
                getattr(tflite, f"{options}Add{key}")(build, value)
            record = getattr(tflite, f"{options}End")(build)
        tflite.OperatorStart(build)
        tflite.OperatorAddOpcodeIndex(build, number)
        tflite.OperatorAddInputs(build, sources)
        tflite.OperatorAddOutputs(build, results)
        if custom is not None:
            tflite.OperatorAddCustomOptions(build, custom)
        if record is not None:
            tflite.OperatorAddBuiltinOptionsType(build, getattr(tflite.BuiltinOptions, str(options)))
            tflite.OperatorAddBuiltinOptions(build, record)
        return int(tflite.OperatorEnd(build))

    def _graph(self, build: Any, tensors: list[int], operations: list[int], image: int, outputs: list[int]) -> int:
        inside, work = _offsets(build, tensors), _offsets(build, operations)
        first = build.CreateNumpyVector(np.array([image], np.int32))
        last = build.CreateNumpyVector(np.array(outputs, np.int32))
        tflite.SubGraphStart(build)
        tflite.SubGraphAddTensors(build, inside)
        tflite.SubGraphAddInputs(build, first)
        tflite.SubGraphAddOutputs(build, last)
        tflite.SubGraphAddOperators(build, work)
        return int(tflite.SubGraphEnd(build))


def _offsets(build: Any, offsets: list[int]) -> int:
    build.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        build.PrependUOffsetTRelative(offset)
    return int(build.EndVector())
