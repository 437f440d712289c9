"""The C++ library on an emulated processor, in place of the one that `kernels.cpu.library.library` loads.

Every call is sent to `runner.cpp`, which qemu runs: the tests' models, arrays and expectations stay on this machine.
"""
# ruff: noqa: D102  (edgemeta_cpu.h describes the functions)

import ctypes
import struct
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from edgemeta.kernels.cpu.library import AxisStruct, RequantizeStruct, ResizeStruct, TensorStruct

_ERROR_BYTES = 256
_RAW = 0


class EmulatedLibrary:
    """Functions of `edgemeta_cpu.h` with the arguments that ctypes would be given, executed by a runner's process."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._tensors: dict[int, list[TensorStruct]] = {}
        self._raw: dict[int, set[int]] = {}
        self._outputs: dict[int, list[int]] = {}
        self._resizers: dict[int, ResizeStruct] = {}
        self._weights: dict[tuple[int, int], tuple[int, int]] = {}  # program, layer: weights, output channels

    def stop(self) -> None:
        """End the runner, which has come to the end of its input."""
        self._process.communicate()

    def em_best_isa(self) -> int:
        return self._call("em_best_isa")

    def em_open(self, isa: int, threads: int, error: Any) -> int | None:
        handle = self._call("em_open", struct.pack("<ii", isa, threads), error)
        self._tensors[handle], self._raw[handle] = [], set()
        return handle or None

    def em_close(self, handle: int) -> None:
        self._call("em_close", _handle(handle))

    def em_isa(self, handle: int) -> int:
        return self._call("em_isa", _handle(handle))

    def em_prefer(self, handle: int, form: int) -> None:
        self._call("em_prefer", _handle(handle) + struct.pack("<i", form))

    def em_add_tensor(self, handle: int, tensor: Any, error: Any) -> int:
        self._tensors[handle].append(tensor._obj)
        return self._call("em_add_tensor", _handle(handle) + _blob(bytes(tensor._obj)), error)

    def em_add_conv(self, handle: int, name: bytes, source: int, output: int, window: Any, *more: Any) -> int:
        outputs, depth, groups, weights, bias, requantize, error = more
        size = outputs * depth * window._obj.kernel_height * window._obj.kernel_width
        if requantize._obj.kind == _RAW:
            self._raw[handle].add(output)
        arrays = _array(weights, size * 4) + _array(bias, outputs * 4)
        layer = _layer(handle, name, (source, output, window, outputs, depth, groups, arrays))
        number = self._call("em_add_conv", layer + _requantize(requantize._obj, outputs), error)
        self._weights[handle, number] = size, outputs
        return number

    def em_set_bases(self, handle: int, layer: int, count: int, basis: int, factors: int, error: Any) -> int:
        weights, outputs = self._weights[handle, layer]
        arrays = _array(basis, count * weights) + _array(factors, count * outputs * 2)
        return self._call("em_set_bases", _handle(handle) + struct.pack("<ii", layer, count) + arrays, error)

    def em_add_concat(self, handle: int, name: bytes, inputs: int, count: int, output: int, error: Any) -> int:
        return self._call("em_add_concat", _layer(handle, name, (_array(inputs, count * 4), count, output)), error)

    def em_add_lookup(self, handle: int, name: bytes, source: int, output: int, *more: Any) -> int:
        tables, table, error = more
        layer = (source, output, tables, _array(table, tables * 512))
        return self._call("em_add_lookup", _layer(handle, name, layer), error)

    def em_add_resize_bilinear(self, handle: int, name: bytes, source: int, output: int, *more: Any) -> int:
        rows, columns, error = more
        kind = self._tensors[handle][output]
        arrays = [
            _array(getattr(axis._obj, field), size * 4)
            for axis, size in ((rows, kind.height), (columns, kind.width))
            for field in ("lower", "upper", "weight")
        ]
        return self._call("em_add_resize_bilinear", _layer(handle, name, (source, output, *arrays)), error)

    def em_seal(self, handle: int, source: int, outputs: int, count: int, error: Any) -> int:
        numbers = list((ctypes.c_int32 * count).from_address(outputs))
        self._outputs[handle] = [self._bytes_of(handle, number) for number in numbers]
        arguments = struct.pack("<Qi", handle, source) + _array(outputs, count * 4) + struct.pack("<i", count)
        return self._call("em_seal", arguments, error)

    def em_run(self, program: ctypes.c_void_p, count: ctypes.c_int32, address: ctypes.c_void_p, outputs: Any) -> None:
        handle, images, batch = program.value or 0, count.value, address.value or 0
        source = self._bytes_of(handle, 0)  # the model's input is the first tensor
        sizes = [images * size for size in self._outputs[handle]]
        arguments = struct.pack("<Qi", handle, images) + _array(batch, images * source)
        self._call("em_run", arguments + struct.pack(f"<{len(sizes) + 1}i", len(sizes), *sizes))
        for address, size in zip(outputs, sizes, strict=True):
            ctypes.memmove(address, self._read(size), size)

    def em_steps(self, handle: int) -> int:
        return self._call("em_steps", _handle(handle))

    def em_step_name(self, handle: int, step: int) -> bytes:
        return self._read(self._call("em_step_name", _handle(handle) + struct.pack("<i", step)))

    def em_step_form(self, handle: int, step: int) -> bytes:
        return self._read(self._call("em_step_form", _handle(handle) + struct.pack("<i", step)))

    def em_step_weight_bytes(self, handle: int, step: int) -> int:
        return self._call("em_step_weight_bytes", _handle(handle) + struct.pack("<i", step))

    def em_step_predicted(self, handle: int, step: int) -> int:
        return self._call("em_step_predicted", _handle(handle) + struct.pack("<i", step))

    def em_resizer_open(self, isa: int, resize: Any, error: Any) -> int | None:
        fields = resize._obj
        numbers = [getattr(fields, name) for name, kind in fields._fields_[2:10] if kind is ctypes.c_int32]
        arrays = (
            _array(fields.colours, fields.channels * 4),
            _array(fields.table, fields.channels * 256),
            _array(fields.fill, fields.channels),
        )
        axes = _axis(fields.rows) + _axis(fields.columns)
        arguments = struct.pack("<i", isa) + axes + struct.pack("<8i", *numbers) + b"".join(arrays)
        handle = self._call("em_resizer_open", arguments, error)
        self._resizers[handle] = fields
        return handle or None

    def em_resizer_close(self, handle: int) -> None:
        if self._process.poll() is None:
            self._call("em_resizer_close", _handle(handle))

    def em_resizer_run(self, handle: int, frame: int, row_bytes: int, output: int) -> None:
        fields = self._resizers[handle]
        rows, columns = (
            start + _covered(axis) for start, axis in ((fields.top, fields.rows), (fields.left, fields.columns))
        )
        last, used = (rows - 1) * row_bytes, columns * fields.frame_channels
        first, size = min(last, 0), abs(last) + used
        target = fields.height * fields.width * fields.channels
        frame_bytes = _array(frame + first, size)
        self._call("em_resizer_run", _handle(handle) + frame_bytes + struct.pack("<3i", -first, row_bytes, target))
        ctypes.memmove(output, self._read(target), target)

    def __getattr__(self, function: str) -> Callable[..., int]:
        """A layer whose arguments are numbers, windows and a requantization after its number of channels."""
        if not function.startswith("em_add_"):
            raise AttributeError(function)

        def add(handle: int, name: bytes, *arguments: Any) -> int:
            *layer, error = arguments
            return self._call(function, _layer(handle, name, layer), error)

        return add

    def _bytes_of(self, handle: int, tensor: int) -> int:
        kind = self._tensors[handle][tensor]
        elements: int = kind.height * kind.width * kind.channels
        return elements * (4 if tensor in self._raw[handle] else 1)

    def _call(self, function: str, arguments: bytes = b"", error: Any = None) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(_blob(function.encode() + b"\0") + arguments)
        self._process.stdin.flush()
        result: int = struct.unpack("<q", self._read(8))[0]
        text = self._read(_ERROR_BYTES)
        if error is not None:
            error.raw = text
        return result

    def _read(self, size: int) -> bytes:
        assert self._process.stdout is not None
        content = self._process.stdout.read(size)
        assert len(content) == size, f"the runner ended with code {self._process.wait()}"
        return content


def _handle(handle: int) -> bytes:
    return struct.pack("<Q", handle)


def _blob(content: bytes) -> bytes:
    return struct.pack("<i", len(content)) + content


def _array(address: int | None, size: int) -> bytes:
    return struct.pack("<i", -1) if address is None else _blob(ctypes.string_at(address, size))


def _requantize(fields: RequantizeStruct, channels: int) -> bytes:
    arrays = (
        _array(fields.multiplier, channels * 4),
        _array(fields.shift, channels),
        _array(fields.table, channels * 512),
    )
    kind, range_ = struct.pack("<i", fields.kind), struct.pack("<ii", fields.lo, fields.hi)
    return kind + arrays[0] + arrays[1] + range_ + arrays[2]


def _axis(axis: AxisStruct) -> bytes:
    counts = list((ctypes.c_int32 * axis.size).from_address(axis.count))
    arrays = (
        _array(axis.start, axis.size * 4),
        _array(axis.count, axis.size * 4),
        _array(axis.weights, sum(counts) * 4),
    )
    return struct.pack("<i", axis.size) + b"".join(arrays) + struct.pack("<i", axis.total)


def _covered(axis: AxisStruct) -> int:
    """Source pixels from the crop's first to the last that the axis reads."""
    starts, counts = ((ctypes.c_int32 * axis.size).from_address(address) for address in (axis.start, axis.count))
    return starts[-1] + counts[-1]


def _layer(handle: int, name: bytes, arguments: Sequence[Any]) -> bytes:
    parts = [_handle(handle), _blob(name + b"\0")]
    for i, argument in enumerate(arguments):
        if isinstance(argument, bytes):
            parts.append(argument)
        elif isinstance(argument, int):
            parts.append(struct.pack("<i", argument))
        elif isinstance(argument._obj, RequantizeStruct):
            parts.append(_requantize(argument._obj, arguments[i - 1]))
        else:
            parts.append(_blob(bytes(argument._obj)))
    return b"".join(parts)
