// Tiles with sdot: four inputs of a pixel, in a lane of its register, times four weights of each of four outputs. Exact,
// as the four products are summed in int32.
//
// Six pixels by a block take 24 of the 32 registers, with their inputs 30; two are left for weights.
#pragma once

#include "tile.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPixels = 6, kBlocks = 1;
constexpr int kColumnBlocks = 1;
constexpr bool kWidens = false;

size_t tile_scratch_bytes(const Conv&) { return 0; }
inline void prepare_tile(const Conv&, const TileInput&, int32_t) {}

template <int P, int N>
void run_tile(const Conv& conv, const TileInput& tile, int32_t* sums) {
  static_assert(N == 1, "the registers hold one block");
  const auto* weights = reinterpret_cast<const int8_t*>(tile.weights);
  int32x4_t acc[P][4];
  unrolled<P * 4>([&](auto i) INLINE { acc[i.value / 4][i.value % 4] = vld1q_s32(tile.bias + i.value % 4 * 4); });
  for (int32_t ky = 0; ky < conv.window.height; ++ky) {
    for (int32_t s = 0; s < conv.spans; ++s) {
      const auto* in = reinterpret_cast<const int8_t*>(tile.in) + ky * conv.tap_row + int64_t{s} * conv.span_step;
      for (int32_t d = 0; d < conv.span; d += 16, in += 16) {
        int8x16_t x[P];
        unrolled<P>([&](auto p) INLINE { x[p.value] = vld1q_s8(in + p.value * int64_t{tile.step}); });
        unrolled<16>([&](auto i) INLINE {
          constexpr int lane = i.value / 4, o = i.value % 4;
          const int8x16_t w = vld1q_s8(weights + i.value * 16);
          unrolled<P>([&](auto p) INLINE {
            acc[p.value][o] = vdotq_laneq_s32(acc[p.value][o], w, x[p.value], lane);
          });
        });
        weights += 16 * kBlock;
      }
    }
  }
  unrolled<P * 4>([&](auto i) INLINE { vst1q_s32(sums + i.value * 4, acc[i.value / 4][i.value % 4]); });
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
