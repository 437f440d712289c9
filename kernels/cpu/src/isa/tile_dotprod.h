// Tiles with sdot: four inputs of a pixel, in a lane of its register, times four weights of each of four outputs. Exact,
// as the four products are summed in int32.
//
// Six pixels by a block take 24 of the 32 registers and their inputs six; two are left for weights.
#pragma once

#include "tile.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPixels = 6, kBlocks = 1;
constexpr int kColumnBlocks = 1;
constexpr bool kWidens = false;

size_t tile_scratch_bytes(const Conv&) { return 0; }
inline void prepare_tile(const Conv&, const TileInput&, int32_t) {}

// Registers of weights that one instruction loads: four, or two where six pixels leave no more.
template <int P>
struct Loaded {
  static constexpr int kCount = 4;
  INLINE static int8x16x4_t from(const int8_t* weights) { return vld1q_s8_x4(weights); }
};
template <>
struct Loaded<6> {
  static constexpr int kCount = 2;
  INLINE static int8x16x2_t from(const int8_t* weights) { return vld1q_s8_x2(weights); }
};

template <int P, int N>
void run_tile(const Conv& conv, const TileInput& tile, int32_t* sums) {
  static_assert(N == 1, "the registers hold one block");
  constexpr int kLoaded = Loaded<P>::kCount;
  // In locals, since the compiler could not know that stores leave the arguments as they are.
  const int64_t step = tile.step, span_step = conv.span_step, row_step = conv.tap_row;
  const int32_t spans = conv.spans, height = conv.window.height, span = conv.span;
  const auto* weights = reinterpret_cast<const int8_t*>(tile.weights);
  const auto* row = reinterpret_cast<const int8_t*>(tile.in);
  int32x4_t acc[P][4];
  unrolled<P * 4>([&](auto i) INLINE { acc[i.value / 4][i.value % 4] = vld1q_s32(tile.bias + i.value % 4 * 4); });
  for (int32_t ky = height; ky > 0; --ky, row += row_step) {
    const int8_t* run = row;
    for (int32_t s = spans; s > 0; --s, run += span_step) {
      const int8_t* in = run;
      for (int32_t d = span; d > 0; d -= 16, in += 16) {
        int8x16_t x[P];
        unrolled<P>([&](auto p) INLINE { x[p.value] = vld1q_s8(in + p.value * step); });
        unrolled<16 / kLoaded>([&](auto i) INLINE {
          const auto w = Loaded<P>::from(weights);
          weights += kLoaded * 16;
          unrolled<kLoaded * P>([&](auto j) INLINE {
            constexpr int n = i.value * kLoaded + j.value / P, lane = n / 4, o = n % 4, p = j.value % P;
            acc[p][o] = vdotq_laneq_s32(acc[p][o], w.val[j.value / P], x[p], lane);
          });
        });
      }
    }
  }
  unrolled<P * 4>([&](auto i) INLINE { vst1q_s32(sums + i.value * 4, acc[i.value / 4][i.value % 4]); });
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
