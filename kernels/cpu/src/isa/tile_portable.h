// Tiles in plain C++: one input integer of a pixel times sixteen int16 weights, in loops that compilers vectorize.
#pragma once

#include "tile.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kWidePixels = 2, kPairPixels = 0;

size_t scratch_bytes(const Conv&) { return 0; }

template <int P, int N>
INLINE inline Accumulators<P, N> accumulate_tile(const Conv& conv, const TileInput& tile, Accumulators<P, N> acc) {
  static_assert(N == 1, "the registers hold one block");
  const uint8_t* weights = tile.weights;
  for (int32_t ky = 0; ky < conv.window.height; ++ky) {
    for (int32_t s = 0; s < conv.spans; ++s) {
      const uint8_t* at = tile.in + ky * conv.tap_row + int64_t{s} * conv.span_step;
      for (int32_t d = 0; d < conv.span; ++d, weights += 2 * kBlock) {
        int16_t w[kBlock];
        memcpy(w, weights, sizeof w);
        for (int p = 0; p < P; ++p) {
          const int16_t x = at[p * int64_t{tile.step} + d];
          for (int i = 0; i < kBlock; ++i)
            acc.lane[p][0].v[i] = wrap(bits(acc.lane[p][0].v[i]) + bits(int32_t{w[i]} * int32_t{x}));
        }
      }
    }
  }
  return acc;
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
