// Tiles with vpmaddubsw, for few bits: 8 x 4 products u8 x s8 at a time, twice as many as vpmaddwd takes.
//
// It adds two products in int16 and saturates. Here it never does: activations begin at 0 (their least integer is taken
// off when the tile is prepared), and the planner has found `steps`, so many that the sums of the products of so many
// neighbouring steps, of positive and of negative weights, lie within int16. After that many the sums are widened.
#pragma once

#include "../tile.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPixels = 6, kBlocks = 1, kBlockPixels = kPixels;  // twelve registers of sums
constexpr int kColumnBlocks = 1;
constexpr bool kWidens = true, kStoresLines = false;

// Bytes of one kernel row under a tile of some pixels, a multiple of 4.
inline int64_t patch_row(const Conv& conv, int32_t pixels) {
  const int64_t step = int64_t{conv.window.stride_x} * conv.in.pixel;
  return (pixels - 1) * step + int64_t{conv.spans - 1} * conv.span_step + conv.span;
}

size_t tile_scratch_bytes(const Conv& conv) {
  return static_cast<size_t>(conv.window.height * patch_row(conv, kPixels) + 63) / 64 * 64;
}

inline void prepare_tile(const Conv& conv, const TileInput& tile, int32_t pixels) {
  const int64_t bytes = patch_row(conv, pixels);
  const uint8_t* in = tile.in;
  uint8_t* patch = tile.scratch;
  const __m256i low = _mm256_set1_epi8(static_cast<char>(conv.low));
  for (int32_t ky = 0; ky < conv.window.height; ++ky, in += conv.tap_row, patch += bytes) {
    int64_t i = 0;
    for (; i + 32 <= bytes; i += 32)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(patch + i), _mm256_sub_epi8(load8(in + i), low));
    for (; i < bytes; ++i) patch[i] = static_cast<uint8_t>(in[i] - conv.low);
  }
}

template <int P, int N>
void run_tile(const Conv& conv, const TileInput& tile, int32_t* sums) {
  static_assert(N == 1, "the registers hold one block");
  const int64_t row = patch_row(conv, P), step = tile.step;
  const uint8_t* weights = tile.weights;
  const __m256i one = _mm256_set1_epi16(1);
  __m256i low[P], high[P];
  for (int p = 0; p < P; ++p) store(sums + p * kBlock, load(tile.bias));
  const auto clear = [&]() INLINE {
    unrolled<P>([&](auto p) INLINE { low[p.value] = high[p.value] = _mm256_setzero_si256(); });
  };
  const auto widen = [&]() INLINE {
    unrolled<P>([&](auto p) INLINE {
      int32_t* sum = sums + p.value * kBlock;
      store(sum, load(sum) + I32x16{_mm256_madd_epi16(low[p.value], one), _mm256_madd_epi16(high[p.value], one)});
    });
    clear();
  };
  clear();
  int32_t left = conv.steps;
  for (int32_t ky = 0; ky < conv.window.height; ++ky) {
    for (int32_t s = 0; s < conv.spans; ++s) {
      const uint8_t* at = tile.scratch + ky * row + int64_t{s} * conv.span_step;
      for (int32_t d = 0; d < conv.span;) {
        const int32_t end = smaller(conv.span, d + 4 * left);
        left -= (end - d) / 4;
        for (; d < end; d += 4, weights += 64) {
          const __m256i wa = load8(weights), wb = load8(weights + 32);
          unrolled<P>([&](auto p) INLINE {
            int32_t four;
            memcpy(&four, at + p.value * step + d, 4);
            const __m256i x = _mm256_set1_epi32(four);
            low[p.value] = _mm256_add_epi16(low[p.value], _mm256_maddubs_epi16(x, wa));
            high[p.value] = _mm256_add_epi16(high[p.value], _mm256_maddubs_epi16(x, wb));
          });
        }
        if (left > 0) continue;
        widen();
        left = conv.steps;
      }
    }
  }
  widen();
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
