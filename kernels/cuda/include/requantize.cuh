// Accumulators to outputs: the forms of epilogue.py.
//
// A kernel describes a requantization with REQUANTIZATION(Name, PREFIX), which reads the defines PREFIX_*:
//   FORM, LO, HI, ZERO (the output's zero point), SCALE_BITS (accumulators are the sums times 2**SCALE_BITS).
// Then, per channel: `channel = load_channel<Name>(constants, c)`, channel.start is added to the sum, first or last,
// and `requantize<Name>(sum, channel, table)` gives y in its low 16 bits as an int16 (RAW: all 32 bits). Only these
// bits count: a line leaves the bits of MAGIC above them.
#pragma once
#include "include/device.cuh"

enum Form { RAW, LINE, CONVERTED_LINE, FINE_LINE, SHIFTED_LINE, MULTIPLIER, TABLE };

#define REQUANTIZATION(name, prefix)            \
  struct name {                                 \
    enum {                                      \
      form = prefix##_FORM,                     \
      lo = prefix##_LO,                         \
      hi = prefix##_HI,                         \
      zero = prefix##_ZERO,                     \
      scale_bits = prefix##_SCALE_BITS          \
    };                                          \
  }

#define MAGIC_BITS 0x4B400000  // of 1.5 * 2**23: MAGIC_BITS + y are the bits of 1.5 * 2**23 + y

struct Channel {
  int start, factor, term, offset;  // factor: slope or multiplier; term: addend, rest or shift
  int lo, hi, shift;                // SHIFTED_LINE only
};

// The constants of a channel, of which `own` and `second` are for SHIFTED_LINE only.
template <class R>
__device__ __forceinline__ Channel channel_of(const int4& all, const int4& own) {
  Channel channel = {all.x, all.y, all.z, all.w, 0, 0, 0};
  if ((int)R::form == SHIFTED_LINE)
    channel.lo = own.x + MAGIC_BITS, channel.hi = own.y + MAGIC_BITS, channel.shift = own.z;
  return channel;
}
template <class R>
__device__ __forceinline__ Channel channel_at(const int4* __restrict__ first, const int4* __restrict__ second) {
  const int4 all = __ldg(first);
  return channel_of<R>(all, (int)R::form == SHIFTED_LINE ? __ldg(second) : all);
}
template <class R>
__device__ __forceinline__ Channel load_channel(const int4* __restrict__ constants, int channel) {
  return channel_at<R>(constants + 2 * channel, constants + 2 * channel + 1);
}

// The same from any memory: in a kernel of the whole network constants may be in shared memory.
template <class R>
__device__ __forceinline__ Channel load_channel_anywhere(const int4* __restrict__ constants, int channel) {
  const int4 all = constants[2 * channel];
  return channel_of<R>(all, (int)R::form == SHIFTED_LINE ? constants[2 * channel + 1] : all);
}

__device__ __forceinline__ int clamp(int value, int lo, int hi) { return min(max(value, lo), hi); }

// Bits of fma(x, slope, addend), clamped: between 2**23 and 2**24 floats are integers, and bits keep their order.
__device__ __forceinline__ int on_line(float x, const Channel& channel, int lo, int hi) {
  const float u = __fmaf_rn(x, __int_as_float(channel.factor), __int_as_float(channel.term));
  return clamp(__float_as_int(u), lo, hi);
}

// Bits of MAGIC + floor(x * slope + fma(x, rest, offset)), clamped.
__device__ __forceinline__ int on_fine_line(float x, const Channel& channel, int lo, int hi) {
  const float rest = __fmaf_rn(x, __int_as_float(channel.term), __int_as_float(channel.offset));
  const float sum = fma_down(x, __int_as_float(channel.factor), rest);
  return clamp(__float_as_int(add_down(sum, __int_as_float(MAGIC_BITS))), lo, hi);
}

// round(value, shift) = (value + 2**(shift-1)) >> shift without an overflow at the ends of int32.
__device__ __forceinline__ int rounding_shift(int value, int shift) {
  return shift == 0 ? value : (value >> shift) + (value >> (shift - 1) & 1);
}

template <class R>
__device__ __forceinline__ int requantize(int sum, const Channel& channel, const unsigned char* __restrict__ table) {
  if ((int)R::form == RAW) return sum >> R::scale_bits;
  const int lo = MAGIC_BITS + R::lo, hi = MAGIC_BITS + R::hi;
  if ((int)R::form == LINE) return on_line(__int_as_float(sum), channel, lo, hi);
  if ((int)R::form == CONVERTED_LINE) return on_line(__int2float_rn(sum), channel, lo, hi);
  if ((int)R::form == FINE_LINE) return on_fine_line(__int2float_rn(sum), channel, lo, hi);
  if ((int)R::form == SHIFTED_LINE)
    return on_line(__int_as_float((sum >> channel.shift) + channel.offset), channel, channel.lo, channel.hi);
  const int accumulator = sum >> R::scale_bits;
  if ((int)R::form == TABLE) {
    const int byte = __ldg(table + clamp(rounding_shift(accumulator, channel.term), -128, 127) + 128);
    return R::lo < 0 ? (int)(signed char)byte : byte;
  }
  const long long half = channel.term > 0 ? 1LL << (channel.term - 1) : 0;
  const long long shifted = ((long long)accumulator * channel.factor + half) >> channel.term;
  return (int)min(max(shifted + R::zero, (long long)R::lo), (long long)R::hi);
}
