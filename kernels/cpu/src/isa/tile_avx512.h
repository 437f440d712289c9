// Tiles with VNNI: each step spreads four input bytes of a pixel over a vector and multiplies them by 16 x 4 weights.
#pragma once

#include "tile.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kWidePixels = 16, kPairPixels = 8;  // tiles of one block, of two: sixteen accumulators each

size_t scratch_bytes(const Conv&) { return 0; }

// STEP: the distance of two pixels where it is one of the usual, so that addresses need no registers; 0 otherwise.
template <int P, int N, int STEP>
INLINE inline Accumulators<P, N> accumulate(const Conv& conv, const TileInput& tile, Accumulators<P, N> acc) {
  const int64_t step = STEP > 0 ? STEP : tile.step;
  const uint8_t* weights = tile.weights;
  for (int32_t ky = 0; ky < conv.window.height; ++ky) {
    for (int32_t s = 0; s < conv.spans; ++s) {
      const uint8_t* at = tile.in + ky * conv.tap_row + int64_t{s} * conv.span_step;
      for (int32_t d = 0; d < conv.span; d += 4, weights += 64) {
        __m512i w[N];
        unrolled<N>([&](auto n) INLINE { w[n.value] = _mm512_loadu_si512(weights + n.value * tile.block_bytes); });
        unrolled<P>([&](auto p) INLINE {
          int32_t four;
          memcpy(&four, at + p.value * step + d, 4);
          const __m512i x = _mm512_set1_epi32(four);
          unrolled<N>([&](auto n) INLINE {
            __m512i& sum = acc.lane[p.value][n.value].v;
            sum = _mm512_dpbusd_epi32(sum, x, w[n.value]);
          });
        });
      }
    }
  }
  return acc;
}

template <int P, int N>
INLINE inline Accumulators<P, N> accumulate_tile(const Conv& conv, const TileInput& tile, Accumulators<P, N> acc) {
  if constexpr (P >= 8) {
    switch (tile.step) {
      case 4:
        return accumulate<P, N, 4>(conv, tile, acc);
      case 16:
        return accumulate<P, N, 16>(conv, tile, acc);
      case 32:
        return accumulate<P, N, 32>(conv, tile, acc);
      case 64:
        return accumulate<P, N, 64>(conv, tile, acc);
      case 128:
        return accumulate<P, N, 128>(conv, tile, acc);
    }
  }
  return accumulate<P, N, 0>(conv, tile, acc);
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
