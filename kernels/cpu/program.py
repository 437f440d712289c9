"""A model in the C++ library: layers are added one by one, then it is sealed and runs with one call per batch."""

import re
from collections.abc import Callable, Mapping
from ctypes import Array, byref, c_int32, c_void_p
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import (
    FORMS,
    ISA_NAMES,
    LibraryError,
    NeighboursStruct,
    RequantizeStruct,
    TensorStruct,
    WindowStruct,
    error_buffer,
    error_text,
    library,
)
from edgemeta.model.bilinear import BilinearAxis, bilinear_axis
from edgemeta.model.graph import INPUT, Model
from edgemeta.model.layers import (
    Add,
    AveragePool,
    ChannelShuffle,
    Clamp,
    Concat,
    Conv,
    Dense,
    Layer,
    Lookup,
    MaxPool,
    Multiplier,
    Pad,
    Padding,
    Pair,
    Product,
    Requantize,
    Rescale,
    ResizeBilinear,
    Slice,
    TensorType,
    Upsample,
    inputs_of,
)
from edgemeta.model.weights import BinaryWeights

_RAW, _MULTIPLIER, _TABLE = 0, 1, 2
_NO_PADDING: Padding = (0, 0, 0, 0)


class OpenError(LibraryError):
    """The machine does not support the instruction set or cannot start the threads."""


@dataclass(frozen=True)
class Form:
    """The form in which a convolution runs.

    description: its name and the reason for it. weight_bytes: size of its weights in memory. predicted: its time as a
    share of that of the form `plain`; 0 where the planner predicts none.
    """

    description: str
    weight_bytes: int
    predicted: float

    @property
    def name(self) -> str:
        """The description's first word: one of FORMS, or another where there is no choice."""
        return re.split("[:,]", self.description)[0]


class Program:
    """A proved model, planned and packed for one instruction set and a number of threads.

    Holds memory and threads of the library until `close`. Used by one thread at a time. Raises LibraryError if the
    library is missing or memory runs out, OpenError if the machine lacks the instruction set or the threads.
    form: one of FORMS, for the convolutions that it can run; the fastest for the others. forms: another one for the
    convolutions of some steps, by the names that `forms` returns; names that the model lacks are ignored.
    """

    def __init__(
        self, model: Model, isa: str, threads: int, form: str = FORMS[0], forms: Mapping[str, str] | None = None
    ) -> None:
        self._library = library()
        self._error = error_buffer()
        self._handle: int | None = self._library.em_open(ISA_NAMES.index(isa), threads, self._error)
        if self._handle is None:
            raise OpenError(error_text(self._error))
        self._form = form
        self._forms = {name: other for step, other in (forms or {}).items() for name in step.split("+")}
        try:
            self._describe(model)
        except LibraryError:
            self.close()
            raise
        self.isa = ISA_NAMES[self._library.em_isa(self._handle)]

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._handle is None

    def run(self, images: int, batch: int, outputs: Array[c_void_p]) -> None:
        """Run C-contiguous images [images, H, W, C] at address `batch`.

        outputs: for each output the address of an array [images, H, W, C] that receives it.
        """
        self.bind(images, batch, outputs)()

    def bind(self, images: int, batch: int, outputs: Array[c_void_p]) -> Callable[[], None]:
        """As `run`, as a call without arguments, to be made until `close` as often as there are images.

        Its arguments are converted to C once: with nothing in the caches, as when a frame comes every 10 ms, that takes
        as long as a tenth of a small network.
        """
        arguments = c_void_p(self._handle), c_int32(images), c_void_p(batch), outputs
        return partial(self._library.em_run, *arguments)

    def profile(self, image: int, outputs: Array[c_void_p]) -> dict[str, float]:
        """Run one image and return the microseconds of every step, by the names of its layers."""
        steps = self._library.em_steps(self._handle)
        nanoseconds = np.zeros(steps, np.int64)
        self._library.em_profile(self._handle, image, outputs, nanoseconds.ctypes.data)
        names = [self._library.em_step_name(self._handle, step).decode() for step in range(steps)]
        return {name: time / 1000 for name, time in zip(names, nanoseconds.tolist(), strict=True)}

    def forms(self) -> dict[str, Form]:
        """How each convolution runs, by the names of its step's layers."""
        steps = range(self._library.em_steps(self._handle))
        texts = ((step, self._library.em_step_form(self._handle, step).decode()) for step in steps)
        return {
            self._library.em_step_name(self._handle, step).decode(): Form(
                text,
                self._library.em_step_weight_bytes(self._handle, step),
                self._library.em_step_predicted(self._handle, step) / 1000,
            )
            for step, text in texts
            if text
        }

    def close(self) -> None:
        """Free memory and threads; a second call does nothing."""
        if self._handle is not None:
            self._library.em_close(self._handle)
            self._handle = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None) is not None:
            self.close()

    def _describe(self, model: Model) -> None:
        tensors = {INPUT: self._tensor(model.input)}
        for layer in model.layers:
            tensors[layer.name] = self._tensor(layer.output)
        shapes = {INPUT: model.input.shape} | {layer.name: layer.output.shape for layer in model.layers}
        for layer in model.layers:
            self._layer(layer, tensors, shapes)
        outputs = np.array([tensors[name] for name in model.outputs], np.int32)
        seal = self._library.em_seal
        self._check(seal(self._handle, tensors[INPUT], outputs.ctypes.data, len(outputs), self._error))

    def _tensor(self, kind: TensorType) -> int:
        struct = TensorStruct(*kind.shape, kind.signed, kind.zero_point, max(kind.lo, -128), min(kind.hi, 255))
        return self._check(self._library.em_add_tensor(self._handle, byref(struct), self._error))

    def _layer(self, layer: Layer, tensors: dict[str, int], shapes: dict[str, tuple[int, int, int]]) -> None:
        output = tensors[layer.name]
        inputs = [tensors[name] for name in inputs_of(layer)]
        channels = layer.output.shape[2]
        match layer:
            case Conv():
                window = _window(layer.weights.shape[1:3], layer.stride, layer.padding, layer.dilation)
                self._conv(layer, inputs[0], output, window, layer.groups, layer.weights.decode())
            case Dense():
                height, width, depth = shapes[layer.input]
                weights = layer.weights.decode().reshape(-1, height, width, depth)
                self._conv(layer, inputs[0], output, _window((height, width), (1, 1), _NO_PADDING), 1, weights)
            case Add():
                self._add("sum", layer, *inputs, output, *layer.multipliers, layer.shift, layer.lo, layer.hi)
            case Clamp():
                self._add("clamp", layer, *inputs, output, layer.lo, layer.hi)
            case Rescale():
                struct, _arrays = _requantize(layer.requantize, layer.output)
                self._add("rescale", layer, *inputs, output, channels, byref(struct))
            case MaxPool():
                window = _window(layer.kernel, layer.stride, layer.padding)
                self._add("max_pool", layer, *inputs, output, byref(window))
            case AveragePool():
                window = _window(layer.kernel, layer.stride, layer.padding)
                struct, _arrays = _requantize(layer.requantize, layer.output)
                self._add("average_pool", layer, *inputs, output, byref(window), channels, byref(struct))
            case Concat():
                numbers = np.array(inputs, np.int32)
                self._add("concat", layer, numbers.ctypes.data, len(numbers), output)
            case Upsample():
                self._add("upsample", layer, *inputs, output, *layer.factor)
            case Lookup():
                table = np.ascontiguousarray(layer.table, np.int16)
                self._add("lookup", layer, *inputs, output, len(table), table.ctypes.data)
            case Product():
                struct, _arrays = _requantize(layer.requantize, layer.output)
                self._add("product", layer, *inputs, output, channels, byref(struct))
            case Pad():
                self._add("pad", layer, *inputs, output, *layer.padding[:2], *layer.spacing)
            case Slice():
                self._add("slice", layer, *inputs, output, *layer.start, *layer.step)
            case ChannelShuffle():
                self._add("channel_shuffle", layer, *inputs, output, layer.groups)
            case ResizeBilinear():
                axes = [
                    _neighbours(bilinear_axis(shapes[layer.input][axis], layer.output.shape[axis], layer.coordinates))
                    for axis in (0, 1)
                ]
                self._add("resize_bilinear", layer, *inputs, output, *(byref(struct) for struct, _ in axes))

    def _conv(
        self,
        layer: Conv | Dense,
        source: int,
        output: int,
        window: WindowStruct,
        groups: int,
        decoded: NDArray[np.int32],
    ) -> None:
        weights = np.ascontiguousarray(decoded, np.int32)
        outputs, depth = weights.shape[0], weights.shape[3]
        bias = np.zeros(outputs, np.int32) if layer.bias is None else np.ascontiguousarray(layer.bias, np.int32)
        struct, _arrays = _requantize(layer.requantize, layer.output)
        self._library.em_prefer(self._handle, FORMS.index(self._forms.get(layer.name, self._form)))
        sizes = (outputs, depth, groups)
        addresses = (weights.ctypes.data, bias.ctypes.data)
        number = self._add("conv", layer, source, output, byref(window), *sizes, *addresses, byref(struct))
        if isinstance(layer.weights, BinaryWeights):
            basis, factors = (np.ascontiguousarray(each) for each in (layer.weights.basis, layer.weights.factors))
            arrays = basis.ctypes.data, factors.ctypes.data
            self._check(self._library.em_set_bases(self._handle, number, len(basis), *arrays, self._error))

    def _add(self, kind: str, layer: Layer, *arguments: object) -> int:
        """Call `em_add_<kind>`, which copies its array arguments; the layer's number."""
        function = getattr(self._library, f"em_add_{kind}")
        return self._check(function(self._handle, layer.name.encode(), *arguments, self._error))

    def _check(self, result: int) -> int:
        if result < 0:
            raise LibraryError(error_text(self._error))
        return result


def _window(kernel: Pair | tuple[int, ...], stride: Pair, padding: Padding, dilation: Pair = (1, 1)) -> WindowStruct:
    return WindowStruct(*kernel, *stride, *padding, *dilation)


def _neighbours(axis: BilinearAxis) -> tuple[NeighboursStruct, list[NDArray[np.int32]]]:
    """The struct and the arrays that it points to, which must stay alive during the call."""
    arrays = [values.astype(np.int32) for values in (axis.lower, axis.upper, axis.weight)]
    return NeighboursStruct(*(array.ctypes.data for array in arrays)), arrays


def _requantize(requantize: Requantize | None, output: TensorType) -> tuple[RequantizeStruct, list[NDArray[Any]]]:
    """The struct and the arrays that it points to, one entry per channel; they must stay alive during the call."""
    if requantize is None:
        return RequantizeStruct(_RAW, None, None, 0, 0, None), []
    channels = output.shape[2]
    shift = _per_channel(requantize.shift, channels, np.uint8)
    if isinstance(requantize, Multiplier):
        multiplier = _per_channel(requantize.multiplier, channels, np.int32)
        addresses = (c_void_p(multiplier.ctypes.data), c_void_p(shift.ctypes.data))
        return RequantizeStruct(_MULTIPLIER, *addresses, requantize.lo, requantize.hi, None), [multiplier, shift]
    table = _per_channel(requantize.table, channels, np.int16)
    struct = RequantizeStruct(_TABLE, None, c_void_p(shift.ctypes.data), 0, 0, c_void_p(table.ctypes.data))
    return struct, [table, shift]


def _per_channel(values: NDArray[Any], channels: int, dtype: type[np.generic]) -> NDArray[Any]:
    """Repeat a layer's single entry for every channel; C-contiguous, of `dtype`."""
    return np.ascontiguousarray(np.broadcast_to(values, (channels, *values.shape[1:])), dtype)
