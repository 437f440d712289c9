// A column with the 256-bit vpdpbusd: the four bytes of a lane are one channel of four rows, eight channels a register.
#pragma once

#include "../kernels.h"
#include "vector.h"
#include "vnni.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// The taps of a kernel column, int8 [16][4], the fourth 0.
struct ColumnTaps {
  static constexpr int kBytes = 64;
  __m256i a, b;

  static INLINE ColumnTaps load(const uint8_t* from) { return {load8(from), load8(from + 32)}; }
  static void store(uint8_t* taps, int32_t kx, int32_t channel, int32_t ky, int32_t weight) {
    taps[kx * kBytes + channel * 4 + ky] = static_cast<uint8_t>(weight);
  }
  INLINE ColumnTaps a_row_further() const { return {_mm256_slli_epi32(a, 8), _mm256_slli_epi32(b, 8)}; }
};

struct Column {
  __m256i a, b;

  template <bool kFourRows>
  static INLINE Column load(const uint8_t* in, int64_t row) {
    const auto at = [&](int y) INLINE { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + y * row)); };
    const __m128i x0 = at(0), x1 = at(1), x2 = at(2), x3 = kFourRows ? at(3) : x2;
    const auto join = [](__m128i upper, __m128i lower) INLINE {
      return _mm256_set_m128i(_mm_unpackhi_epi16(upper, lower), _mm_unpacklo_epi16(upper, lower));
    };
    return {join(_mm_unpacklo_epi8(x0, x1), _mm_unpacklo_epi8(x2, x3)),
            join(_mm_unpackhi_epi8(x0, x1), _mm_unpackhi_epi8(x2, x3))};
  }

  INLINE void multiply_add(I32x16& acc, const ColumnTaps& taps) const {
    acc = {add_products(acc.a, a, taps.a), add_products(acc.b, b, taps.b)};
  }
};

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
