// Tiles with the 256-bit vpdpbusd: each step spreads four input bytes of a pixel over a vector and multiplies them by
// 8 x 4 weights, twice for a block of sixteen channels.
//
// Six sums of sixteen lanes take twelve of the sixteen registers, two hold weights and one the spread bytes. One
// vpdpbusd takes four or five cycles and two start in each, so twelve keep them busy.
#pragma once

#include "tile.h"
#include "vnni.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPixels = 6, kBlocks = 1, kBlockPixels = kPixels;
constexpr int kColumnBlocks = 6;  // of a tile of one pixel, where maps are that wide
constexpr bool kWidens = false, kStoresLines = true;

size_t tile_scratch_bytes(const Conv&) { return 0; }
inline void prepare_tile(const Conv&, const TileInput&, int32_t) {}

// Four input bytes, or their complements, in each lane.
template <int kComplement>
INLINE inline __m256i spread(const uint8_t* p, __m256i complement) {
  int32_t four;
  memcpy(&four, p, 4);
  const __m256i x = _mm256_set1_epi32(four);
  return kComplement ? _mm256_xor_si256(x, complement) : x;
}

template <int kComplement>
INLINE inline __m256i complement_of(const int32_t* group) {
  return kComplement ? _mm256_set1_epi32(*group) : _mm256_setzero_si256();
}

// Adds the products of some groups of weights to the sums of P pixels.
template <int P, int kComplements>
INLINE inline void add_groups(const HighDigit& groups, const TileInput& tile, I32x16* acc) {
  for (int32_t i = 0; i < groups.count; ++i) {
    const __m256i wa = load8(groups.weights + 64 * i), wb = load8(groups.weights + 64 * i + 32);
    const __m256i complement = complement_of<kComplements>(groups.complements + i);
    const uint8_t* at = tile.in + groups.at[i];
    unrolled<P>([&](auto p) INLINE {
      const __m256i x = spread<kComplements>(at + p.value * int64_t{tile.step}, complement);
      acc[p.value] = {add_products(acc[p.value].a, x, wa), add_products(acc[p.value].b, x, wb)};
    });
  }
}

// Adds the products of a block's digits above the lowest to the sums of P pixels.
template <int P, int kComplements>
INLINE inline void add_high_digits(const Conv& conv, const HighDigit* digits, const TileInput& tile, I32x16* acc) {
  if (conv.digit_bits == 0) return add_groups<P, kComplements>(digits[0], tile, acc);
  I32x16 high[P];
  unrolled<P>([&](auto p) INLINE { high[p.value] = splat(0); });
  for (int32_t digit = 0; digit < conv.high_digits; ++digit) {
    add_groups<P, 0>(digits[digit], tile, high);
    unrolled<P>([&](auto p) INLINE {
      high[p.value] = {_mm256_slli_epi32(high[p.value].a, 8), _mm256_slli_epi32(high[p.value].b, 8)};
    });
  }
  unrolled<P>([&](auto p) INLINE { acc[p.value] = acc[p.value] + high[p.value]; });
}

// Pixels are addressed by threes, as base, base + step and base + 2 * step: so they need few registers.
template <int P, int N, int kComplements>
INLINE inline void sum_tile(const Conv& conv, const TileInput& tile, int32_t* sums) {
  constexpr int kGroups = (P + 2) / 3;
  const int64_t step = tile.step, block_bytes = tile.block_bytes;
  const uint8_t* weights = tile.weights;
  const int32_t* complements = conv.complements;
  I32x16 acc[P][N];
  unrolled<P * N>([&](auto i) INLINE {
    constexpr int p = i.value / N, n = i.value % N;
    acc[p][n] = load(tile.bias + n * kBlock);
  });
  if (conv.high_digits > 0)
    unrolled<N>([&](auto n) INLINE {
      I32x16 column[P];
      unrolled<P>([&](auto p) INLINE { column[p.value] = acc[p.value][n.value]; });
      add_high_digits<P, kComplements>(conv, tile.high + n.value * conv.high_digits, tile, column);
      unrolled<P>([&](auto p) INLINE { acc[p.value][n.value] = column[p.value]; });
    });
  for (int32_t ky = 0; ky < conv.window.height; ++ky) {
    for (int32_t s = 0; s < conv.spans; ++s) {
      const uint8_t* group[kGroups];
      const uint8_t* at = tile.in + ky * conv.tap_row + int64_t{s} * conv.span_step;
      unrolled<kGroups>([&](auto g) INLINE { group[g.value] = at + 3 * g.value * step; });
      for (int32_t d = conv.span; d > 0; d -= 4) {
        const auto multiply_add = [&](auto complemented) INLINE {
          const __m256i complement = complement_of<complemented.value>(complements);
          unrolled<N>([&](auto n) INLINE {
            const __m256i wa = load8(weights + n.value * block_bytes), wb = load8(weights + n.value * block_bytes + 32);
            unrolled<P>([&](auto i) INLINE {
              constexpr int p = i.value;
              const __m256i x = spread<complemented.value>(group[p / 3] + p % 3 * step, complement);
              I32x16& sum = acc[p][n.value];
              sum = {add_products(sum.a, x, wa), add_products(sum.b, x, wb)};
            });
          });
        };
        // Which groups are complemented is the same in all tiles of a layer, and so predicted well.
        if (kComplements && *complements != 0)
          multiply_add(Constant<1>());
        else
          multiply_add(Constant<0>());
        unrolled<kGroups>([&](auto g) INLINE { group[g.value] += 4; });
        weights += 64;
        complements += kComplements;
      }
    }
  }
  if constexpr (P > 1 && N <= kBlocks)
    if (tile.out != nullptr) return store_tile(conv, tile, acc);
  unrolled<P * N>([&](auto i) INLINE {
    constexpr int p = i.value % P, n = i.value / P;
    store(sums + i.value * kBlock, acc[p][n]);
  });
}

template <int P, int N>
void run_tile(const Conv& conv, const TileInput& tile, int32_t* sums) {
  conv.complements == nullptr ? sum_tile<P, N, 0>(conv, tile, sums) : sum_tile<P, N, 1>(conv, tile, sums);
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
