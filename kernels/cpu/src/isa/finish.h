// From sixteen accumulators to sixteen output integers: requantization and the fused addition.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

inline I32x16 scale_block(const Requantize& rq, int32_t block, const I32x16& acc) {
#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)
  const int32_t c = block * kBlock;
  return scale_to_bytes(acc, rq.scale + c, rq.offset + c, static_cast<float>(rq.lo), static_cast<float>(rq.hi));
#else
  (void)rq, (void)block;
  return acc;  // never reached: the planner proves no float method for this instruction set
#endif
}

// Result within int32: clamp before the zero point is added, so that the sum cannot overflow.
inline I32x16 multiply_block(const Requantize& rq, int32_t block, const I32x16& acc) {
  const int32_t c = block * kBlock;
  const I32x16 rounded = multiply_shift(acc, rq.multiplier + c, rq.half + c, rq.shift + c);
  return clamp(rounded, rq.lo - rq.zero, rq.hi - rq.zero) + splat(rq.zero);
}

inline I32x16 wide_block(const Requantize& rq, int32_t block, const I32x16& acc) {
  int32_t lane[kBlock];
  store(lane, acc);
  for (int i = 0; i < kBlock; ++i) {
    const int32_t c = block * kBlock + i, j = block * kBlock + i / 2 + i % 2 * 8;
    const int64_t rounded = (int64_t{lane[i]} * rq.multiplier[c] + rq.half[j]) >> rq.shift[j];
    const int64_t lo = rq.lo - rq.zero, hi = rq.hi - rq.zero;
    lane[i] = static_cast<int32_t>(rounded < lo ? lo : rounded > hi ? hi : rounded) + rq.zero;
  }
  return load(lane);
}

// clamp(round(acc, s), -128, 127), half up without overflow: ((acc >> (s - 1)) + 1) >> 1, and acc itself where s = 0.
inline I32x16 table_index(const Requantize& rq, int32_t block, const I32x16& acc) {
  const I32x16 shift = load(rq.table_shift + block * kBlock), one = min(shift, splat(1));
  return clamp(shift_right(shift_right(acc, shift - one) + one, one), -128, 127);
}

inline I32x16 look_up(const Requantize& rq, int32_t block, const I32x16& index) {
  int32_t lane[kBlock];
  store(lane, index);
  const uint8_t* table = rq.table + block * kBlock * 256 + 128;
  for (int i = 0; i < kBlock; ++i) lane[i] = table[i * 256 + lane[i]];
  return load(lane);
}

// Call `use(finished)` with the function that finishes an accumulator of this block; the method is chosen once.
template <typename Use>
inline void with_method(const Requantize& rq, int32_t block, Use use) {
  switch (rq.method[block]) {
    case Method::raw:
      return;
    case Method::scale:
      return use([&](const I32x16& acc) { return scale_block(rq, block, acc); });
    case Method::multiply:
      return use([&](const I32x16& acc) { return multiply_block(rq, block, acc); });
    case Method::wide:
      return use([&](const I32x16& acc) { return wide_block(rq, block, acc); });
    case Method::shift_scale:
      return use([&](const I32x16& acc) { return scale_block(rq, block, table_index(rq, block, acc)); });
    case Method::shift_table:
      return use([&](const I32x16& acc) { return look_up(rq, block, table_index(rq, block, acc)); });
  }
}

inline I32x16 weighted_sum(const Sum& s, const I32x16& a, const I32x16& b) {
  const I32x16 total = a * splat(s.multiplier_a) + b * splat(s.multiplier_b) + splat(s.constant);
  // The shifted sum is at most 2**30 in magnitude, so the zero point can be added before the clamp.
  return clamp(shift_right(total, s.shift) + splat(s.zero), s.lo, s.hi);
}

// Give sixteen accumulators their place in the output: int32 for a raw tensor, bytes otherwise.
inline void finish_one(const Requantize& rq, int32_t block, const I32x16& acc, uint8_t* out) {
  if (rq.method[block] == Method::raw) {
    int32_t lane[kBlock];
    store(lane, acc);
    memcpy(out, lane, sizeof lane);
    return;
  }
  with_method(rq, block, [&](auto finish) { store_bytes(out, finish(acc)); });
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
