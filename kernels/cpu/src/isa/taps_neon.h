// Taps of a depthwise convolution with smull: one tap at a time for sixteen channels, the products in int16.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// weights: int8 [blocks][taps][16]
struct Taps {
  static constexpr int kPixels = 1;

  const Depthwise& conv;
  const int8_t* weights;
  I32x16 bias;

  INLINE Taps(const Depthwise& given, int32_t block)
      : conv(given),
        weights(static_cast<const int8_t*>(given.weights) + int64_t{block} * given.tap_count * kBlock),
        bias(load(given.bias + block * kBlock)) {}

  INLINE void accumulate(const uint8_t* in, I32x16* acc) const {
    I32x16 sum = bias;
    const int8_t* weight = weights;
    for (int32_t tap = 0; tap < conv.tap_count; ++tap, weight += kBlock) {
      const int8x16_t x = vreinterpretq_s8_u8(vld1q_u8(in + conv.taps[tap])), w = vld1q_s8(weight);
      const int16x8_t low = vmull_s8(vget_low_s8(x), vget_low_s8(w));
      const int16x8_t high = vmull_s8(vget_high_s8(x), vget_high_s8(w));
      sum.a = vaddw_s16(sum.a, vget_low_s16(low));
      sum.b = vaddw_s16(sum.b, vget_high_s16(low));
      sum.c = vaddw_s16(sum.c, vget_low_s16(high));
      sum.d = vaddw_s16(sum.d, vget_high_s16(high));
    }
    acc[0] = sum;
  }
};

constexpr int32_t kLeastTap = -128, kGreatestTap = 127;
bool fits_taps(const Depthwise&) { return true; }

size_t taps_bytes(const Depthwise& conv) { return size_t(conv.out.blocks()) * conv.tap_count * kBlock; }

void pack_taps(const Depthwise& conv, const int32_t* weights, uint8_t* packed) {
  for (int32_t c = 0; c < conv.out.channels; ++c)
    for (int32_t tap = 0; tap < conv.tap_count; ++tap, ++weights)
      packed[(int64_t{c / kBlock} * conv.tap_count + tap) * kBlock + c % kBlock] = static_cast<uint8_t>(*weights);
}

template <typename Use>
inline void with_taps(const Depthwise&, Use use) {
  use(Type<Taps>());
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
