// Tiles with smull, smlal and sadalp, for ARM without dot products: sixteen inputs of a pixel times sixteen weights of
// an output give eight sums of two products in int16, which are added in pairs to four int32.
//
// Two products fit int16, except twice -128 * -128 = 2**15: -128 * 127 * 2 > -2**15. A register holds four parts of one
// output's sum, so a tile is computed for a few outputs at a time, as many as leave registers for the inputs. Where two
// weights of one of these that meet are both -128 (`lowest_pairs`), each product of theirs is added alone.
#pragma once

#include "tile_arm.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

#if defined(__aarch64__)
constexpr int kPixels = 4;
constexpr int kSums = 16;  // registers
#else
constexpr int kPixels = 2;
constexpr int kSums = 8;
#endif

// sum + products, pairs of them added.
template <bool kLowestPair>
INLINE inline int32x4_t add_products(int32x4_t sum, int8x16_t x, int8x16_t w) {
  const int16x8_t first = vmull_s8(vget_low_s8(x), vget_low_s8(w));
#if defined(__aarch64__)
  if constexpr (kLowestPair) return vpadalq_s16(vpadalq_s16(sum, first), vmull_high_s8(x, w));
  return vpadalq_s16(sum, vmlal_high_s8(first, x, w));
#else
  if constexpr (kLowestPair)
    return vpadalq_s16(vpadalq_s16(sum, first), vmull_s8(vget_high_s8(x), vget_high_s8(w)));
  return vpadalq_s16(sum, vmlal_s8(first, vget_high_s8(x), vget_high_s8(w)));
#endif
}

#if defined(__aarch64__)
// Adds the products of x[p] and w to a, b, c and d: all pixels take one instruction after the other, so that none waits
// for the one before, as in-order cores would. Written out, as GCC 12 puts the three of a pixel behind each other.
INLINE inline void add_four(int32x4_t& a, int32x4_t& b, int32x4_t& c, int32x4_t& d, const int8x16_t* x, int8x16_t w) {
  int16x8_t p, q, r, s;
  asm("smull %4.8h, %8.8b, %12.8b\n\tsmull %5.8h, %9.8b, %12.8b\n\tsmull %6.8h, %10.8b, %12.8b\n\t"
      "smull %7.8h, %11.8b, %12.8b\n\tsmlal2 %4.8h, %8.16b, %12.16b\n\tsmlal2 %5.8h, %9.16b, %12.16b\n\t"
      "smlal2 %6.8h, %10.16b, %12.16b\n\tsmlal2 %7.8h, %11.16b, %12.16b\n\tsadalp %0.4s, %4.8h\n\t"
      "sadalp %1.4s, %5.8h\n\tsadalp %2.4s, %6.8h\n\tsadalp %3.4s, %7.8h"
      : "+w"(a), "+w"(b), "+w"(c), "+w"(d), "=&w"(p), "=&w"(q), "=&w"(r), "=&w"(s)
      : "w"(x[0]), "w"(x[1]), "w"(x[2]), "w"(x[3]), "w"(w));
}
#endif

// The outputs first .. first + O - 1 of a block for P pixels.
template <int P, int O, bool kLowestPair>
INLINE inline void run_outputs(const WindowOf& window, const TileInput& input, const int8_t* corner, int32_t first,
                               int32_t* sums) {
  const int64_t step = input.step;
  int32x4_t acc[P][O];
  unrolled<P * O>([&](auto i) INLINE { acc[i.value / O][i.value % O] = vdupq_n_s32(0); });
  window.each(corner, input.weights + first * 16, [&](const int8_t* in, const int8_t*& weights) INLINE {
    int8x16_t x[P];
    unrolled<P>([&](auto p) INLINE { x[p.value] = vld1q_s8(in + p.value * step); });
    unrolled<O / 4>([&](auto four) INLINE {
      constexpr int o = four.value * 4;
      const Weights w = load_next(weights);
      unrolled<4>([&](auto i) INLINE {
        constexpr int of = o + i.value;
#if defined(__aarch64__)
        if constexpr (P == 4 && !kLowestPair) {
          add_four(acc[0][of], acc[1][of], acc[2][of], acc[3][of], x, w.val[i.value]);
          return;
        }
#endif
        unrolled<P>([&](auto p) INLINE {
          acc[p.value][of] = add_products<kLowestPair>(acc[p.value][of], x[p.value], w.val[i.value]);
        });
      });
    });
    weights += 16 * (kBlock - O);
  });
  unrolled<O / 4>([&](auto i) INLINE {
    constexpr int o = i.value * 4;
    const int32x4_t bias = vld1q_s32(input.bias + first + o);
    unrolled<P>([&](auto p) INLINE {
      const auto& of = acc[p.value];
      vst1q_s32(sums + p.value * kBlock + first + o, vaddq_s32(bias, sums_of(of[o], of[o + 1], of[o + 2], of[o + 3])));
    });
  });
}

// kLowestPairs: whether some outputs of the block have lowest pairs.
template <int P, bool kLowestPairs>
INLINE inline void run_all(const WindowOf& given_window, const TileInput& given, int32_t tiles, int32_t* sums) {
  constexpr int kOutputs = kSums / (P == 3 ? 4 : P);
  constexpr int32_t kFours = (1 << kOutputs / 4) - 1;
  const WindowOf window = given_window;
  const TileInput input = given;
  const int8_t* corner = input.in;
  for (; tiles > 0; --tiles, corner += P * input.step, sums += P * kBlock)
    for (int32_t o = 0; o < kBlock; o += kOutputs) {
      if (kLowestPairs && (input.lowest_pairs >> o / 4 & kFours) != 0)
        run_outputs<P, kOutputs, kLowestPairs>(window, input, corner, o, sums);
      else
        run_outputs<P, kOutputs, false>(window, input, corner, o, sums);
    }
}

template <int P>
void run_tiles(const Conv&, const WindowOf& window, const TileInput& input, int32_t tiles, int32_t* sums) {
  if (input.lowest_pairs != 0) return run_all<P, true>(window, input, tiles, sums);
  run_all<P, false>(window, input, tiles, sums);
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
