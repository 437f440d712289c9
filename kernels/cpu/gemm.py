"""One product of matrices of few bits, in three stages that are timed apart: quantize, multiply, dequantize.

As Kim, Hong and Shin measure it (figure 2): float32 activations become unsigned integers of few bits, are multiplied
by weights of few bits, which were quantized before, and the sums become float32.
"""

import time
from contextlib import closing
from ctypes import c_void_p
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgemeta.kernels.cpu.library import FORMS, ISA_NAMES, library
from edgemeta.kernels.cpu.program import Form, Program
from edgemeta.model.graph import INPUT, Model, Preprocessing
from edgemeta.model.layers import Clamp, Conv, TensorType
from edgemeta.model.tasks import Embedding
from edgemeta.model.weights import FixedWeights

_PRODUCT = "gemm"
_MOST_COLUMNS = 256
"""Pixels of a row of the image that the rows of a matrix become."""


@dataclass(frozen=True)
class Quantized:
    """integers uint8, 0 .. 2**bits - 1: the real number is least + step * integer."""

    integers: NDArray[np.uint8]
    least: float
    step: float


def quantize(x: NDArray[np.float32], bits: int, isa: str = "auto") -> Quantized:
    """float32 of any shape, C-contiguous and finite, to integers of `bits` = 1 .. 8; raises LibraryError."""
    integers, span = np.empty(x.shape, np.uint8), np.empty(2, np.float32)
    library().em_quantize(ISA_NAMES.index(isa), x.ctypes.data, x.size, bits, integers.ctypes.data, span.ctypes.data)
    least, greatest = float(span[0]), float(span[1])
    return Quantized(integers, least, (greatest - least) / (2**bits - 1))


def dequantize(
    sums: NDArray[np.int32], scale: NDArray[np.float32], offset: NDArray[np.float32], isa: str = "auto"
) -> NDArray[np.float32]:
    """Sums [M, N] * scale [N] + offset [N] in float32, all C-contiguous."""
    out = np.empty(sums.shape, np.float32)
    addresses = (scale.ctypes.data, offset.ctypes.data, out.ctypes.data)
    library().em_dequantize(ISA_NAMES.index(isa), sums.ctypes.data, *sums.shape, *addresses)
    return out


@dataclass(frozen=True)
class Stages:
    """Microseconds of each run [runs] of the three stages."""

    quantize: NDArray[np.float64]
    gemm: NDArray[np.float64]
    dequantize: NDArray[np.float64]


class Gemm:
    """Integers x [rows, K] of `input_bits`, unsigned or not, times weights [N, K] of `weight_bits`, on one thread.

    It is a 1x1 convolution with raw sums, so the form is what a layer of a network would get; `form` asks for another
    one. Raises OpenError if the machine lacks the instruction set, LibraryError if the library is missing.
    """

    def __init__(
        self,
        rows: int,
        weights: NDArray[np.int8],
        bits: tuple[int, int],
        signed: bool = False,
        isa: str = "auto",
        form: str = FORMS[0],
    ) -> None:
        outputs, depth = weights.shape
        width = next(each for each in range(min(rows, _MOST_COLUMNS), 0, -1) if rows % each == 0)
        kind = TensorType((rows // width, width, depth), bits[1], signed)
        # The library trusts the range of a tensor that a layer computes, not that of the caller's integers.
        clamp = Clamp("clamp", INPUT, kind, kind.lo, kind.hi)
        stored = FixedWeights(weights.reshape(outputs, 1, 1, depth), bits[0], np.ones(1))
        product: Conv = Conv(_PRODUCT, clamp.name, TensorType((rows // width, width, outputs), 32), weights=stored)
        preprocessing = Preprocessing("full", "y", np.zeros((1, 256), np.uint8))
        network = Model(_PRODUCT, kind, (clamp, product), (_PRODUCT,), Embedding(), preprocessing)
        self._dtype = kind.dtype
        self._program = Program(network, isa, 1, form)
        self.sums = np.empty((rows, outputs), np.int32)
        self._addresses = (c_void_p * 1)(self.sums.ctypes.data)

    @property
    def form(self) -> Form:
        """How the product is made."""
        return self._program.forms()[_PRODUCT]

    @property
    def isa(self) -> str:
        """Name of the instruction set in use."""
        return self._program.isa

    def multiply(self, x: NDArray[np.int8] | NDArray[np.uint8]) -> NDArray[np.int32]:
        """The sums [rows, N], valid until the next call."""
        assert x.dtype == self._dtype
        assert x.flags.c_contiguous
        self._program.run(1, x.ctypes.data, self._addresses)
        return self.sums

    def time(self, x: NDArray[np.int8] | NDArray[np.uint8]) -> float:
        """Multiply x [rows, K]; microseconds of the product alone."""
        assert x.dtype == self._dtype
        assert x.flags.c_contiguous
        return self._program.profile(x.ctypes.data, self._addresses)[_PRODUCT]

    def close(self) -> None:
        """Free the library's memory."""
        self._program.close()


def random_weights(shape: tuple[int, int], bits: int) -> NDArray[np.int8]:
    """Uniformly random integers [N, K] of `bits`, the least one among them; the same on every call."""
    end = 1 << (bits - 1)
    weights = np.random.default_rng(0).integers(-end, end, shape).astype(np.int8)
    weights.flat[0] = -end
    return weights


def measure(gemm: Gemm, rows: int, weights: NDArray[np.int8], input_bits: int, runs: int) -> Stages:
    """Time `runs` runs of all stages on random float32 activations [rows, K], after a warm-up of a tenth as many.

    A real activation is least + step * integer and a real weight is its integer (its scale would only multiply
    `scale`), so a result is step * sum + least * (sum of the column's weights).
    """
    outputs, depth = weights.shape
    x = np.random.default_rng(1).normal(size=(rows, depth)).astype(np.float32)
    column_sums = weights.sum(axis=1, dtype=np.int64).astype(np.float32)
    times = np.empty((3, runs))
    for run in range(-(runs // 10) - 1, runs):
        begin = time.perf_counter_ns()
        quantized = quantize(x, input_bits, gemm.isa)
        after_quantize = time.perf_counter_ns()
        gemm_us = gemm.time(quantized.integers)
        scale = np.full(outputs, quantized.step, np.float32)
        offset = column_sums * np.float32(quantized.least)
        before_dequantize = time.perf_counter_ns()
        dequantize(gemm.sums, scale, offset, gemm.isa)
        end = time.perf_counter_ns()
        if run >= 0:
            times[:, run] = (after_quantize - begin) / 1000, gemm_us, (end - before_dequantize) / 1000
    return Stages(*times)


def multiply_adds_per_us(isa: str) -> float:
    """Of a product whose operands fit the first cache, on one thread: what no convolution of form `plain` exceeds."""
    rows, outputs, depth = 56, 32, 512
    return rows * outputs * depth / _least_us(isa, rows, (outputs, depth))[0]


def weights_per_us(isa: str, kilobytes: int) -> float:
    """Bytes of weights that a product of one row reads, where there are so many: from the cache that holds them."""
    microseconds, weight_bytes = _least_us(isa, 1, (kilobytes, 1024))
    return weight_bytes / microseconds


def _least_us(isa: str, rows: int, shape: tuple[int, int]) -> tuple[float, int]:
    """Least microseconds of a product with weights [N, K] in form `plain`, and the bytes of these."""
    with closing(Gemm(rows, random_weights(shape, 8), (8, 8), isa=isa, form="plain")) as product:
        x = np.random.default_rng(1).integers(0, 256, (rows, shape[1])).astype(np.uint8)
        return min(product.time(x) for _ in range(200)), product.form.weight_bytes
