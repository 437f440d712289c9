// The weighted sum of an addition, of two tensors or fused to the convolution that makes an operand.
#pragma once

#include "finish.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// Whether storing a byte clamps the sum as the addition does.
inline bool is_full(const Sum& s) {
  constexpr int32_t least = Byte(-1) < 0 ? -128 : 0;
  return s.zero == 0 && s.lo == least && s.hi == least + 255;
}

// FULL: for sums of which is_full is true, not yet clamped.
template <bool FULL = false>
INLINE inline I32x16 weighted_sum(const Sum& s, const I32x16& a, const I32x16& b) {
  const I32x16 total = a * splat(s.multiplier_a) + b * splat(s.multiplier_b) + splat(s.constant);
  const I32x16 y = shift_right(total, s.shift);
  // The shifted sum is at most 2**30 in magnitude, so the zero point can be added before the clamp.
  return FULL ? y : clamp(y + splat(s.zero), s.lo, s.hi);
}

// An operand that is requantized right before: where its zero point is still to be added, the sum's constant holds
// that, times the multiplier; sums wrap.
template <typename Finish>
struct Operand {
  const Finish& finish;
  const I32x16 lo, hi;

  INLINE Operand(const Finish& given, const Requantize& rq)
      : finish(given), lo(splat(rq.lo - taken(rq))), hi(splat(rq.hi - taken(rq))) {}

  static int32_t taken(const Requantize& rq) { return Finish::kInRange ? 0 : rq.zero; }

  INLINE I32x16 operator()(const I32x16& acc) const {
    const I32x16 result = finish(acc);
    return Finish::kInRange ? result : min(max(result, lo), hi);
  }
  static void move_zero(const Requantize& rq, Sum& sum) {
    sum.constant = static_cast<int32_t>(static_cast<uint32_t>(sum.constant) +
                                        static_cast<uint32_t>(taken(rq)) * static_cast<uint32_t>(sum.multiplier_a));
  }
};

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
