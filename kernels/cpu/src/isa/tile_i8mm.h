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
    const Weights w = load_next(weights);
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

// The pairs of so many tiles for Reads::packed: [tile][16 inputs][pair][half].
inline void pack_pixels(const int8_t* in, int64_t step, int32_t span, int32_t tiles, int8_t* packed) {
  for (; tiles > 0; --tiles, in += 4 * step)
    for (int32_t d = 0; d < span; d += 16, packed += 64) {
      int8x16_t x[2][2];
      load_pairs<2, 2, 3>(in + d, step, x);
      unrolled<4>([&](auto i) INLINE { vst1q_s8(packed + i.value * 16, x[i.value / 2][i.value % 2]); });
    }
}

// With an odd number of pixels the last one of the first half has a partner that is not stored.
template <int P, Reads kReads>
__attribute__((noinline)) void run_window(const WindowOf& given, const TileInput& input, int32_t tiles, int32_t* sums) {
  constexpr int kPairs = (P + 1) / 2;
  const WindowOf window = given;
  const int64_t step = input.step;
  const int8_t *corner = input.in, *weights = input.weights;
  int32_t starts[2 * kBlock];  // the bias of two outputs for both pixels
  unrolled<8>([&](auto o) INLINE {
    vst1q_s64(reinterpret_cast<int64_t*>(starts + o.value * 4),
              vld1q_dup_s64(reinterpret_cast<const int64_t*>(input.bias + o.value * 2)));
  });
  for (; tiles > 0; --tiles, corner += P * step, sums += P * kBlock) {
    int32x4_t acc[kPairs][8];
    unrolled<2 * kPairs>([&](auto i) INLINE {
      load_sums(starts + i.value % 2 * kBlock, acc[i.value / 2] + i.value % 2 * 4);
    });
    if constexpr (kReads == Reads::three_taps) {
      window.each_three(corner, weights, [&](const int8_t* in, const int8_t** w) INLINE {
        int8x16_t x[kPairs + 2][2];
        load_pairs<kPairs + 2, kPairs, P + 1>(in, step, x);
        unrolled<3>([&](auto tap) INLINE { add_products<kPairs>(acc, x + tap.value, w[tap.value]); });
      });
    } else {
      window.each<kReads>(corner, weights, [&](const int8_t* in, const int8_t*& w) INLINE {
        int8x16_t x[kPairs][2];
        if constexpr (kReads == Reads::packed) {
          const int8x16x4_t four = vld1q_s8_x4(in);
          unrolled<2 * kPairs>([&](auto i) INLINE { x[i.value / 2][i.value % 2] = four.val[i.value]; });
        } else {
          load_pairs<kPairs, kPairs, P - 1>(in, step, x);
        }
        add_products<kPairs>(acc, x, w);
      });
    }
    unrolled<P>([&](auto pixel) INLINE {
      constexpr int p = pixel.value;
      int32x4_t four[4];
      unrolled<4>([&](auto i) INLINE {
        const int64x2_t a = vreinterpretq_s64_s32(acc[p % kPairs][2 * i.value]),
                        b = vreinterpretq_s64_s32(acc[p % kPairs][2 * i.value + 1]);
        four[i.value] = vreinterpretq_s32_s64(p < kPairs ? vzip1q_s64(a, b) : vzip2q_s64(a, b));
      });
      store_sums<p>(sums, four);
    });
  }
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
