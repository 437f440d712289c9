// Tiles with vpmaddwd: each step spreads two input integers of a pixel, as int16, and multiplies them by 16 x 2
// weights.
//
// vpmaddubsw would multiply bytes, but it saturates on full-range u8 x s8 pairs. So the input of a tile is widened
// first, once for all blocks of output channels.
#pragma once

#include "tile.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPixels = 4, kBlocks = 1, kBlockPixels = kPixels;  // eight sums; more measured slower
constexpr int kColumnBlocks = 1;
constexpr bool kWidens = true, kStoresLines = true;

// Bytes of one kernel row under a tile of some pixels.
inline int64_t patch_row(const Conv& conv, int32_t pixels) {
  const int64_t step = int64_t{conv.window.stride_x} * conv.in.pixel;
  return (pixels - 1) * step + int64_t{conv.spans - 1} * conv.span_step + conv.span;
}

size_t tile_scratch_bytes(const Conv& conv) {
  return static_cast<size_t>(conv.window.height * patch_row(conv, kPixels) * 2 + 63) / 64 * 64;
}

inline void prepare_tile(const Conv& conv, const TileInput& tile, int32_t pixels) {
  const int64_t bytes = patch_row(conv, pixels);
  const uint8_t* in = tile.in;
  int16_t* patch = reinterpret_cast<int16_t*>(tile.scratch);
  for (int32_t ky = 0; ky < conv.window.height; ++ky, in += conv.tap_row, patch += bytes) {
    int64_t i = 0;
    for (; i + 16 <= bytes; i += 16) {
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(patch + i), _mm256_cvtepu8_epi16(b));
    }
    for (; i < bytes; ++i) patch[i] = in[i];
  }
}

template <int P, int N>
void run_tile(const Conv& conv, const TileInput& tile, int32_t* sums) {
  static_assert(N == 1, "the registers hold one block");
  const int16_t* patch = reinterpret_cast<const int16_t*>(tile.scratch);
  const int64_t row = patch_row(conv, P), step = tile.step;
  const uint8_t* weights = tile.weights;
  I32x16 acc[P][1];
  unrolled<P>([&](auto p) INLINE { acc[p.value][0] = load(tile.bias); });
  for (int32_t ky = 0; ky < conv.window.height; ++ky) {
    for (int32_t s = 0; s < conv.spans; ++s) {
      const int16_t* at = patch + ky * row + int64_t{s} * conv.span_step;
      for (int32_t d = 0; d < conv.span; d += 2, weights += 64) {
        const __m256i wa = load8(weights), wb = load8(weights + 32);
        unrolled<P>([&](auto p) INLINE {
          int32_t pair;
          memcpy(&pair, at + p.value * step + d, 4);
          const __m256i x = _mm256_set1_epi32(pair);
          I32x16& sum = acc[p.value][0];
          sum = {_mm256_add_epi32(sum.a, _mm256_madd_epi16(x, wa)), _mm256_add_epi32(sum.b, _mm256_madd_epi16(x, wb))};
        });
      }
    }
  }
  if constexpr (P > 1)
    if (tile.out != nullptr) return store_tile(conv, tile, acc);
  unrolled<P>([&](auto p) INLINE { store(sums + p.value * kBlock, acc[p.value][0]); });
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
