// Tiles with smmla: eight inputs of each of two pixels times eight weights of each of two outputs give the four sums of a
// register, exact in int32.
//
// Four pixels by a block take sixteen registers, and their inputs, eight of two pixels in a register, four.
#pragma once

#include "tile.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPixels = 4, kBlocks = 1;
constexpr int kColumnBlocks = 1;
constexpr bool kWidens = false;

size_t tile_scratch_bytes(const Conv&) { return 0; }
inline void prepare_tile(const Conv&, const TileInput&, int32_t) {}

INLINE inline int8x16_t low_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip1q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}
INLINE inline int8x16_t high_halves(int8x16_t a, int8x16_t b) {
  return vreinterpretq_s8_s64(vzip2q_s64(vreinterpretq_s64_s8(a), vreinterpretq_s64_s8(b)));
}

// With an odd number of pixels the last one is its own partner.
template <int P, int N>
void run_tile(const Conv& conv, const TileInput& tile, int32_t* sums) {
  static_assert(N == 1, "the registers hold one block");
  constexpr int kPairs = (P + 1) / 2;
  // In locals, since the compiler could not know that stores leave the arguments as they are.
  const int64_t step = tile.step, span_step = conv.span_step, row_step = conv.tap_row;
  const int32_t spans = conv.spans, height = conv.window.height, span = conv.span;
  const auto* weights = reinterpret_cast<const int8_t*>(tile.weights);
  const auto* row = reinterpret_cast<const int8_t*>(tile.in);
  int32x4_t acc[kPairs][8];
  unrolled<8>([&](auto o) INLINE {
    const int32x2_t bias = vld1_s32(tile.bias + o.value * 2);
    unrolled<kPairs>([&](auto p) INLINE { acc[p.value][o.value] = vcombine_s32(bias, bias); });
  });
  for (int32_t ky = height; ky > 0; --ky, row += row_step) {
    const int8_t* run = row;
    for (int32_t s = spans; s > 0; --s, run += span_step) {
      const int8_t* in = run;
      for (int32_t d = span; d > 0; d -= 16, in += 16) {
        int8x16_t x[kPairs][2];
        unrolled<kPairs>([&](auto p) INLINE {
          constexpr int first = p.value * 2, second = first + 1 < P ? first + 1 : first;
          const int8x16_t a = vld1q_s8(in + first * step), b = vld1q_s8(in + second * step);
          x[p.value][0] = low_halves(a, b);
          x[p.value][1] = high_halves(a, b);
        });
        unrolled<16>([&](auto i) INLINE {
          constexpr int half = i.value / 8, o = i.value % 8;
          const int8x16_t w = vld1q_s8(weights + i.value * 16);
          unrolled<kPairs>([&](auto p) INLINE {
            acc[p.value][o] = vmmlaq_s32(acc[p.value][o], x[p.value][half], w);
          });
        });
        weights += 16 * kBlock;
      }
    }
  }
  unrolled<P * 4>([&](auto i) INLINE {
    constexpr int p = i.value / 4, o = i.value % 4 * 2;
    const int64x2_t a = vreinterpretq_s64_s32(acc[p / 2][o]), b = vreinterpretq_s64_s32(acc[p / 2][o + 1]);
    const int64x2_t four = p % 2 == 0 ? vzip1q_s64(a, b) : vzip2q_s64(a, b);
    vst1q_s32(sums + i.value * 4, vreinterpretq_s32_s64(four));
  });
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
