"""Proofs that every integer of a layer is in range: weights, tables, multipliers and worst-case accumulators."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edgemeta.model.errors import ModelError
from edgemeta.model.fixedpoint import INT32_MAX, INT32_MIN
from edgemeta.model.layers.types import Float32, Multiplier, Requantize, TensorType
from edgemeta.model.require import require, require_array, require_between, require_values
from edgemeta.model.weights import BinaryWeights, FixedWeights, PowerOfTwoWeights, Weights


def prove_type(kind: TensorType) -> None:
    """Bits, sign, zero point and scale are consistent."""
    require(kind.bits in (1, 2, 3, 4, 5, 6, 7, 8, 32), f"bits is {kind.bits}, expected 1 .. 8 or 32")
    if kind.bits == 32:
        require(kind.signed and kind.zero_point == 0, "32-bit tensors must be signed with zero point 0")
    require_between(kind.zero_point, kind.lo, kind.hi, "zero_point")
    require(np.isfinite(kind.scale) and kind.scale > 0, f"scale is {kind.scale}, expected a finite number above 0")


def prove_weights(weights: Weights | Float32) -> None:
    """Dtypes, shapes and values are as documented in `weights`, and the scales are finite and above 0.

    Weights of a float network are finite.
    """
    require(0 not in weights.shape, f"weights have shape {list(weights.shape)}, expected at least one element")
    if isinstance(weights, np.ndarray):
        prove_finite(weights, "weights")
        return
    channels = weights.shape[0]
    match weights:
        case FixedWeights():
            require_between(weights.bits, 1, 8, "bits of the weights")
            require_array(weights.values, np.int8, (weights.shape,), "values")
            half = 1 << (weights.bits - 1)
            require_values(weights.values, -half, half - 1, "values")
        case PowerOfTwoWeights():
            require_between(weights.bits, 2, 5, "bits of the weights")
            require_array(weights.codes, np.uint8, (weights.shape,), "codes")
            require_values(weights.codes, 0, (1 << weights.bits) - 1, "codes")
            sign = 1 << (weights.bits - 1)
            require(not (weights.codes == sign).any(), "codes hold a negative zero")
            require_values(weights.codes & (sign - 1), 0, 1 << (weights.bits - 2), "the magnitudes of the codes")
        case BinaryWeights():
            bases = len(weights.basis)
            require_between(bases, 1, 8, "the number of bases")
            require_array(weights.basis, np.int8, ((bases, *weights.shape),), "basis")
            require(bool((np.abs(weights.basis) == 1).all()), "basis holds other values than -1 and 1")
            require_array(weights.factors, np.int16, ((channels, bases),), "factors")
    require_array(weights.scale, np.float64, ((1,), (channels,)), "scale of the weights")
    usable = np.isfinite(weights.scale).all() and (weights.scale > 0).all()
    require(bool(usable), "scale of the weights holds a value that is not finite and above 0")


def prove_finite(array: Float32, what: str) -> None:
    """An array [...] is float32, and each number finite."""
    require(array.dtype == np.float32, f"{what} is {array.dtype}, expected float32")
    require(bool(np.isfinite(array).all()), f"{what} holds NaN or infinity, expected finite numbers")


def prove_bias(bias: NDArray[Any] | None, channels: int, kind: type[np.int32 | np.float32]) -> None:
    """Bias is absent or has this dtype, [channels], and is finite."""
    if bias is not None:
        require_array(bias, kind, ((channels,),), "bias")
        require(bool(np.isfinite(bias).all()), "bias holds NaN or infinity, expected finite numbers")


def prove_requantize(requantize: Requantize | None, output: TensorType) -> None:
    """Dtypes, shapes and ranges are as documented in `types`, and every result lies in the output type."""
    if requantize is None:
        raise ModelError("requantize is null, expected how the accumulators become integers of the output")
    channels = output.shape[2]
    require(output.bits <= 8, f"output has {output.bits} bits, expected 1 .. 8 after requantization")
    per_channel = ((1,), (channels,))
    require_array(requantize.shift, np.uint8, per_channel, "shift")
    if isinstance(requantize, Multiplier):
        require_array(requantize.multiplier, np.int32, per_channel, "multiplier")
        require_values(requantize.multiplier, 0, INT32_MAX, "multiplier")
        require_values(requantize.shift, 0, 62, "shift")
        prove_clamp(requantize.lo, requantize.hi, output)
        return
    require_values(requantize.shift, 0, 31, "shift")
    prove_table(requantize.table, output)


def prove_table(table: NDArray[np.int8] | NDArray[np.uint8], output: TensorType) -> None:
    """A table is [1, 256] or [channels, 256], all entries within the output type."""
    require(output.bits <= 8, f"output has {output.bits} bits, expected 1 .. 8 from a table")
    require_array(table, output.dtype, ((1, 256), (output.shape[2], 256)), "table")
    require_values(table, output.lo, output.hi, "table")


def prove_clamp(lo: int, hi: int, output: TensorType) -> None:
    """Both bounds lie in the output type, in order."""
    require_between(lo, output.lo, output.hi, "lo")
    require_between(hi, output.lo, output.hi, "hi")
    require(lo <= hi, f"lo is {lo}, above hi, {hi}")


def prove_accumulators(weights: Weights, bias: NDArray[np.int32] | None, source: TensorType) -> None:
    """No accumulator leaves int32, whatever the input. bias: [O].

    With d = x - zx in dlo .. dhi the sum of w d lies in P dlo + N dhi .. P dhi + N dlo, P and N the sums of positive
    and negative weights. As dlo <= 0 <= dhi every term may be 0, so sums over the taps outside the padding, and
    partial sums that begin with the bias, stay within the same bounds, in any order.
    """
    decoded = weights.decode().reshape(weights.shape[0], -1)
    positive = np.maximum(decoded, 0).sum(axis=1, dtype=np.int64)
    negative = np.minimum(decoded, 0).sum(axis=1, dtype=np.int64)
    below, above = source.lo - source.zero_point, source.hi - source.zero_point
    start = np.zeros(len(decoded), np.int64) if bias is None else bias.astype(np.int64)
    least = start + positive * below + negative * above
    greatest = start + positive * above + negative * below
    for channel in np.flatnonzero((least < INT32_MIN) | (greatest > INT32_MAX))[:1]:
        require(
            False,
            f"the accumulator of channel {channel} may reach {least[channel]} .. {greatest[channel]}, beyond int32",
        )


def prove_pool_accumulators(area: int, source: TensorType) -> None:
    """Sum of `area` terms x - zx stays in int32."""
    reach = area * max(source.zero_point - source.lo, source.hi - source.zero_point)
    require(reach <= INT32_MAX, f"the sum of {area} elements may reach {reach}, beyond int32")
