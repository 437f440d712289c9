// A column with VNNI: the four bytes of a lane are one channel of four rows.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// The taps of a kernel column, int8 [16][4], the fourth 0.
struct ColumnTaps {
  static constexpr int kBytes = 64;
  __m512i w;

  static INLINE ColumnTaps load(const uint8_t* from) { return {_mm512_loadu_si512(from)}; }
  static void store(uint8_t* taps, int32_t kx, int32_t channel, int32_t ky, int32_t weight) {
    taps[kx * kBytes + channel * 4 + ky] = static_cast<uint8_t>(weight);
  }
  INLINE ColumnTaps a_row_further() const { return {_mm512_slli_epi32(w, 8)}; }
};

struct Column {
  __m512i x;

  template <bool kFourRows>
  static INLINE Column load(const uint8_t* in, int64_t row) {
    const auto at = [](const uint8_t* p) INLINE { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); };
    const __m512i dwords = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i transpose =
        _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
    __m512i x = _mm512_castsi128_si512(at(in));
    x = _mm512_inserti32x4(x, at(in + row), 1);
    x = _mm512_inserti32x4(x, at(in + 2 * row), 2);
    if constexpr (kFourRows) x = _mm512_inserti32x4(x, at(in + 3 * row), 3);
    return {_mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, x), transpose)};
  }

  INLINE void multiply_add(I32x16& acc, const ColumnTaps& taps) const {
    acc.v = _mm512_dpbusd_epi32(acc.v, x, taps.w);
  }
};

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
