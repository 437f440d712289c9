// Taps of a depthwise convolution with vpmaddwd: two taps at a time, as pairs of int16 for each of sixteen channels. A
// tap without a partner is paired with itself, whose second weight is 0.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// weights: int16 [blocks][pairs][16][2]
struct Taps {
  static constexpr int kPixels = 1;

  const Depthwise& conv;
  const int16_t* weights;
  I32x16 bias;

  INLINE Taps(const Depthwise& given, int32_t block)
      : conv(given),
        weights(static_cast<const int16_t*>(given.weights) + int64_t{block} * ((given.tap_count + 1) / 2) * 2 * kBlock),
        bias(load(given.bias + block * kBlock)) {}

  INLINE void accumulate(const uint8_t* in, I32x16* acc) const {
    I32x16 sum = bias;
    const int16_t* weight = weights;
    const auto at = [&](int32_t tap) INLINE {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + conv.taps[tap]));
    };
    for (int32_t tap = 0; tap < conv.tap_count; tap += 2, weight += 2 * kBlock) {
      const __m128i a = at(tap), b = at(smaller(tap + 1, conv.tap_count - 1));
      const __m256i lower = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(a, b));
      const __m256i upper = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(a, b));
      sum = {_mm256_add_epi32(sum.a, _mm256_madd_epi16(lower, load8(weight))),
             _mm256_add_epi32(sum.b, _mm256_madd_epi16(upper, load8(weight + kBlock)))};
    }
    acc[0] = sum;
  }
};

constexpr int32_t kLeastTap = -32768, kGreatestTap = 32767;
bool fits_taps(const Depthwise&) { return true; }

size_t taps_bytes(const Depthwise& conv) {
  return size_t(conv.out.blocks()) * ((conv.tap_count + 1) / 2) * 2 * kBlock * sizeof(int16_t);
}

void pack_taps(const Depthwise& conv, const int32_t* weights, uint8_t* packed) {
  const int32_t pairs = (conv.tap_count + 1) / 2;
  auto* to = reinterpret_cast<int16_t*>(packed);
  for (int32_t c = 0; c < conv.out.channels; ++c)
    for (int32_t tap = 0; tap < conv.tap_count; ++tap, ++weights)
      to[((int64_t{c / kBlock} * pairs + tap / 2) * kBlock + c % kBlock) * 2 + tap % 2] =
          static_cast<int16_t>(*weights);
}

template <typename Use>
inline void with_taps(const Depthwise&, Use use) {
  use(Type<Taps>());
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
