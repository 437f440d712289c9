// Tiles with sdot: four inputs of a pixel, in a lane of its register, times four weights of each of four outputs.
// Exact, as the four products are summed in int32.
//
// Four pixels by a block take sixteen of the 32 registers. At stride 1 the three taps of a row read six pixels instead
// of twelve.
#pragma once

#include "tile_arm.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPixels = 4;

// Sixteen inputs of P pixels by a block: x[pixels], weights [4][16][4].
template <int P>
INLINE inline void add_products(int32x4_t (*acc)[4], const int8x16_t* x, const int8_t*& weights) {
  unrolled<4>([&](auto lane) INLINE {
    const Weights w = load_next(weights);
    unrolled<4 * P>([&](auto i) INLINE {
      constexpr int o = i.value / P, p = i.value % P;
      acc[p][o] = vdotq_laneq_s32(acc[p][o], w.val[o], x[p], lane.value);
    });
  });
}

template <int P, Reads kReads>
__attribute__((noinline)) void run_window(const WindowOf& given, const TileInput& input, int32_t tiles, int32_t* sums) {
  const WindowOf window = given;
  const int64_t step = input.step;
  const int8_t *corner = input.in, *weights = input.weights;
  const int32_t* bias = input.bias;
  for (; tiles > 0; --tiles, corner += P * step, sums += P * kBlock) {
    int32x4_t acc[P][4];
    unrolled<P>([&](auto p) INLINE { load_sums(bias, acc[p.value]); });
    if constexpr (kReads == Reads::three_taps) {
      window.each_three(corner, weights, [&](const int8_t* in, const int8_t** w) INLINE {
        int8x16_t x[P + 2];
        unrolled<P + 2>([&](auto p) INLINE { x[p.value] = vld1q_s8(in + p.value * step); });
        unrolled<3>([&](auto tap) INLINE { add_products<P>(acc, x + tap.value, w[tap.value]); });
      });
    } else {
      window.each<kReads>(corner, weights, [&](const int8_t* in, const int8_t*& w) INLINE {
        int8x16_t x[P];
        unrolled<P>([&](auto p) INLINE { x[p.value] = vld1q_s8(in + p.value * step); });
        add_products<P>(acc, x, w);
      });
    }
    unrolled<P>([&](auto p) INLINE { store_sums<p.value>(sums, acc[p.value]); });
  }
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
