// Tiles with smmla: eight inputs of each of two pixels times eight weights of each of two outputs give the four sums of
// a register, exact in int32.
//
// Four pixels by a block take sixteen registers, and their inputs, eight of two pixels in a register, four. A pixel's
// partner is the one half a tile further: so two pixels of one tap are two pixels of the next tap, too, and at stride 1
// the three taps of a row take four pairs instead of six.
#pragma once

#include "tile_arm.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPixels = 4;

INLINE inline int8x16_t low_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
INLINE inline int8x16_t high_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

// Sixteen inputs of pairs of pixels by a block: x[pairs][halves], weights [2][16][8].
template <int kPairs>
INLINE inline void add_products(int32x4_t (*acc)[8], const int8x16_t (*x)[2], const int8_t*& weights) {
  unrolled<4>([&](auto i) INLINE {
    const int8x16x4_t w = load_next(weights);
    unrolled<4 * kPairs>([&](auto j) INLINE {
      constexpr int half = i.value / 2, o = i.value % 2 * 4 + j.value / kPairs, p = j.value % kPairs;
      acc[p][o] = vmmlaq_s32(acc[p][o], x[p][half], w.val[j.value / kPairs]);
    });
  });
}

// Pairs of the pixels first, first + 1 ... with those kPairs further.
template <int kCount, int kPairs, int kLast>
INLINE inline void load_pairs(const int8_t* in, int64_t step, int8x16_t (*x)[2]) {
  int8x16_t pixels[kCount + kPairs];
  unrolled<kCount + kPairs>([&](auto p) INLINE {
    pixels[p.value] = vld1q_s8(in + (p.value < kLast ? p.value : kLast) * step);
  });
  unrolled<kCount>([&](auto p) INLINE {
    x[p.value][0] = low_halves(pixels[p.value], pixels[p.value + kPairs]);
    x[p.value][1] = high_halves(pixels[p.value], pixels[p.value + kPairs]);
  });
}

// With an odd number of pixels the last one of the first half has a partner that is not stored.
template <int P>
void run_tiles(const Conv& conv, const TileInput& input, int32_t tiles, int32_t* sums) {
  constexpr int kPairs = (P + 1) / 2;
  const int64_t step = input.step;
  const WindowOf window(conv, step);
  const int8_t *corner = input.in, *weights = input.weights;
  const int32_t* bias = input.bias;
  for (; tiles > 0; --tiles, corner += P * step, sums += P * kBlock) {
    int32x4_t acc[kPairs][8];
    unrolled<8>([&](auto o) INLINE {
      const int32x4_t two = vreinterpretq_s32_s64(vld1q_dup_s64(reinterpret_cast<const int64_t*>(bias + o.value * 2)));
      unrolled<kPairs>([&](auto p) INLINE { acc[p.value][o.value] = two; });
    });
    if (window.shares_taps) {
      window.each_three(corner, weights, [&](const int8_t* in, const int8_t** w) INLINE {
        int8x16_t x[kPairs + 2][2];
        load_pairs<kPairs + 2, kPairs, P + 1>(in, step, x);
        unrolled<3>([&](auto tap) INLINE { add_products<kPairs>(acc, x + tap.value, w[tap.value]); });
      });
    } else {
      window.each(corner, weights, [&](const int8_t* in, const int8_t*& w) INLINE {
        int8x16_t x[kPairs][2];
        load_pairs<kPairs, kPairs, P - 1>(in, step, x);
        add_products<kPairs>(acc, x, w);
      });
    }
    unrolled<P * 4>([&](auto i) INLINE {
      constexpr int p = i.value / 4, o = i.value % 4 * 2;
      const int64x2_t a = vreinterpretq_s64_s32(acc[p % kPairs][o]), b = vreinterpretq_s64_s32(acc[p % kPairs][o + 1]);
      const int64x2_t four = p < kPairs ? vzip1q_s64(a, b) : vzip2q_s64(a, b);
      vst1q_s32(sums + i.value * 4, vreinterpretq_s32_s64(four));
    });
  }
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
