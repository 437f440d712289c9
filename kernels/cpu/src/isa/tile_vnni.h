// Tiles with VNNI: each step spreads four input bytes of a pixel over a vector and multiplies them by 16 x 4 weights.
//
// Included after the constants of a tile and Vnni, the instructions for a block of sixteen channels: Spread, four bytes
// in each lane; Weights, 16 x 4 of them.
#pragma once

#include "tile.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr bool kWidens = false, kStoresLines = true;

size_t tile_scratch_bytes(const Conv&) { return 0; }
inline void prepare_tile(const Conv&, const TileInput&, int32_t) {}

// Four input bytes, or their complements, in each lane.
template <int kComplement>
INLINE inline Vnni::Spread spread(const uint8_t* p, Vnni::Spread complement) {
  int32_t four;
  memcpy(&four, p, 4);
  const Vnni::Spread x = Vnni::spread(four);
  return kComplement ? x ^ complement : x;
}

template <int kComplement>
INLINE inline Vnni::Spread complement_of(const int32_t* group) {
  return Vnni::spread(kComplement ? *group : 0);
}

// Adds the products of some groups of weights to the sums of P pixels. With few pixels the groups take turns with
// several sums, which do not wait for each other.
template <int P, int kComplements>
INLINE inline void add_groups(const HighDigit& groups, const TileInput& tile, I32x16* acc) {
  constexpr int kTurns = P == 1 ? 4 : P <= 3 ? 2 : 1;
  I32x16 sums[kTurns][P];
  unrolled<kTurns * P>([&](auto i) INLINE {
    sums[i.value / P][i.value % P] = i.value < P ? acc[i.value % P] : splat(0);
  });
  const auto add = [&](int32_t i, I32x16* to) INLINE {
    const auto w = Vnni::weights(groups.weights + 64 * i);
    const auto complement = complement_of<kComplements>(groups.complements + i);
    const uint8_t* at = tile.in + groups.at[i];
    unrolled<P>([&](auto p) INLINE {
      Vnni::add_products(to[p.value], spread<kComplements>(at + p.value * int64_t{tile.step}, complement), w);
    });
  };
  int32_t i = 0;
  for (; i + kTurns <= groups.count; i += kTurns)
    unrolled<kTurns>([&](auto turn) INLINE { add(i + turn.value, sums[turn.value]); });
  for (; i < groups.count; ++i) add(i, sums[0]);
  unrolled<P>([&](auto p) INLINE {
    acc[p.value] = sums[0][p.value];
    unrolled<kTurns - 1>([&](auto turn) INLINE { acc[p.value] = acc[p.value] + sums[turn.value + 1][p.value]; });
  });
}

// Adds the products of a block's digits above the lowest to the sums of P pixels.
template <int P, int kComplements>
INLINE inline void add_high_digits(const Conv& conv, const HighDigit* digits, const TileInput& tile, I32x16* acc) {
  if (conv.digit_bits == 0) return add_groups<P, kComplements>(digits[0], tile, acc);
  I32x16 high[P];
  unrolled<P>([&](auto p) INLINE { high[p.value] = splat(0); });
  for (int32_t digit = 0; digit < conv.high_digits; ++digit) {
    add_groups<P, 0>(digits[digit], tile, high);
    unrolled<P>([&](auto p) INLINE { high[p.value] = Vnni::a_digit_higher(high[p.value]); });
  }
  unrolled<P>([&](auto p) INLINE { acc[p.value] = acc[p.value] + high[p.value]; });
}

// Pixels are addressed by threes, as base, base + step and base + 2 * step: so they need few registers.
template <int P, int N, int kComplements>
INLINE inline void sum_tile(const Conv& conv, const TileInput& tile, int32_t* sums) {
  constexpr int kGroups = (P + 2) / 3;
  const int64_t step = tile.step;
  const uint8_t* weights = tile.weights;
  const int32_t* complements = conv.complements;
  I32x16 acc[P][N];
  unrolled<P * N>([&](auto i) INLINE {
    acc[i.value / N][i.value % N] = load(tile.bias + i.value % N * kBlock);
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
      for (int32_t d = 0; d < conv.span; d += 4) {
        Vnni::Weights w[N];
        unrolled<N>([&](auto n) INLINE {
          w[n.value] = Vnni::weights(weights + n.value * tile.block_bytes);
          if constexpr (P > 1) Vnni::keep(w[n.value]);
        });
        const auto multiply_add = [&](auto complemented) INLINE {
          const auto complement = complement_of<complemented.value>(complements);
          unrolled<P>([&](auto i) INLINE {
            constexpr int p = i.value;
            const auto x = spread<complemented.value>(group[p / 3] + p % 3 * step, complement);
            unrolled<N>([&](auto n) INLINE { Vnni::add_products(acc[p][n.value], x, w[n.value]); });
          });
        };
        // Which groups are complemented is the same in all tiles of a layer, and so predicted well. With many blocks
        // one more instruction is hidden, and a branch is not.
        if (kComplements && (N > kBlocks || *complements != 0))
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
    store(sums + i.value * kBlock, acc[i.value % P][i.value / P]);
  });
}

template <int P, int N>
void run_tile(const Conv& conv, const TileInput& tile, int32_t* sums) {
  conv.complements == nullptr ? sum_tile<P, N, 0>(conv, tile, sums) : sum_tile<P, N, 1>(conv, tile, sums);
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
