// Tiles in plain C++: one input integer of a pixel times sixteen int16 weights, in loops that compilers vectorize.
#pragma once

#include "tile.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPixels = 2, kBlocks = 1, kBlockPixels = kPixels;
constexpr int kColumnBlocks = 1;
constexpr bool kWidens = false, kStoresLines = false;

size_t tile_scratch_bytes(const Conv&) { return 0; }
inline void prepare_tile(const Conv&, const TileInput&, int32_t) {}

template <int P, int N>
void run_tile(const Conv& conv, const TileInput& tile, int32_t* sums) {
  static_assert(N == 1, "the registers hold one block");
  const uint8_t* weights = tile.weights;
  const int32_t height = conv.window.height, spans = conv.spans, span = conv.span;
  uint32_t acc[P][kBlock];
  for (int p = 0; p < P; ++p) memcpy(acc[p], tile.bias, sizeof acc[p]);
  for (int32_t ky = 0; ky < height; ++ky) {
    for (int32_t s = 0; s < spans; ++s) {
      const uint8_t* at = tile.in + ky * conv.tap_row + int64_t{s} * conv.span_step;
      for (int32_t d = 0; d < span; ++d, weights += 2 * kBlock) {
        int16_t w[kBlock];
        memcpy(w, weights, sizeof w);
        for (int p = 0; p < P; ++p) {
          const int16_t x = at[p * int64_t{tile.step} + d];
          // Unrolled, as GCC 12 would do first, it is no longer a loop that it vectorizes.
#pragma GCC unroll 1
          for (int i = 0; i < kBlock; ++i) acc[p][i] += bits(int32_t{w[i]} * int32_t{x});
        }
      }
    }
  }
  for (int p = 0; p < P; ++p) memcpy(sums + p * kBlock, acc[p], sizeof acc[p]);
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
