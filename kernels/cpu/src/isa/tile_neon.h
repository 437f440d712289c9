// Tiles with smull, smlal and sadalp, for ARM without dot products: sixteen inputs of a pixel times sixteen weights of an
// output give eight sums of two products in int16, which are added in pairs to four int32.
//
// Two products fit int16, except twice -128 * -128 = 2**15: -128 * 127 * 2 > -2**15. Where two weights that meet are both
// -128 (`has_lowest_pair`), each product is added alone. A register holds four parts of one output's sum, so a tile is
// computed for a few outputs at a time, as many as leave registers for the inputs.
#pragma once

#include "tile.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

#if defined(__aarch64__)
constexpr int kPixels = 4;
constexpr int kSums = 16;  // registers
#else
constexpr int kPixels = 2;
constexpr int kSums = 8;
#endif
constexpr int kBlocks = 1;
constexpr int kColumnBlocks = 1;
constexpr bool kWidens = false;

size_t tile_scratch_bytes(const Conv&) { return 0; }
inline void prepare_tile(const Conv&, const TileInput&, int32_t) {}

INLINE inline int8x16x4_t load_four(const int8_t* p) {
#if defined(__aarch64__)
  return vld1q_s8_x4(p);  // one instruction
#else
  return {vld1q_s8(p), vld1q_s8(p + 16), vld1q_s8(p + 32), vld1q_s8(p + 48)};
#endif
}

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

// The sums of the lanes of each register.
INLINE inline int32x4_t sums_of(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d) {
#if defined(__aarch64__)
  return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
#else
  const auto halves = [](int32x4_t x) { return vadd_s32(vget_low_s32(x), vget_high_s32(x)); };
  return vcombine_s32(vpadd_s32(halves(a), halves(b)), vpadd_s32(halves(c), halves(d)));
#endif
}

// The outputs first .. first + O - 1 of a block for P pixels. What the loops need is in locals, since the compiler could
// not know that stores leave the arguments as they are.
template <int P, int O, bool kLowestPair>
INLINE inline void run_outputs(const Conv& conv, const TileInput& tile, int32_t first, int32_t* sums) {
  const int64_t step = tile.step, span_step = conv.span_step, row_step = conv.tap_row;
  const int32_t spans = conv.spans, height = conv.window.height, span = conv.span;
  const auto* weights = reinterpret_cast<const int8_t*>(tile.weights) + first * 16;
  const auto* row = reinterpret_cast<const int8_t*>(tile.in);
  int32x4_t acc[P][O];
  unrolled<P * O>([&](auto i) INLINE { acc[i.value / O][i.value % O] = vdupq_n_s32(0); });
  for (int32_t ky = height; ky > 0; --ky, row += row_step) {
    const int8_t* run = row;
    for (int32_t s = spans; s > 0; --s, run += span_step) {
      const int8_t* in = run;
      for (int32_t d = span; d > 0; d -= 16, in += 16, weights += 16 * kBlock) {
        int8x16_t x[P];
        unrolled<P>([&](auto p) INLINE { x[p.value] = vld1q_s8(in + p.value * step); });
        unrolled<O / 4>([&](auto four) INLINE {
          constexpr int o = four.value * 4;
          const int8x16x4_t w = load_four(weights + o * 16);
          unrolled<P * 4>([&](auto i) INLINE {
            int32x4_t& sum = acc[i.value % P][o + i.value / P];
            sum = add_products<kLowestPair>(sum, x[i.value % P], w.val[i.value / P]);
          });
        });
      }
    }
  }
  unrolled<O / 4>([&](auto i) INLINE {
    constexpr int o = i.value * 4;
    const int32x4_t bias = vld1q_s32(tile.bias + first + o);
    unrolled<P>([&](auto p) INLINE {
      const auto& of = acc[p.value];
      vst1q_s32(sums + p.value * kBlock + first + o, vaddq_s32(bias, sums_of(of[o], of[o + 1], of[o + 2], of[o + 3])));
    });
  });
}

template <int P, int N>
void run_tile(const Conv& conv, const TileInput& tile, int32_t* sums) {
  static_assert(N == 1, "the registers hold one block");
  constexpr int kOutputs = kSums / (P == 3 ? 4 : P);
  for (int32_t o = 0; o < kBlock; o += kOutputs)
    conv.has_lowest_pair ? run_outputs<P, kOutputs, true>(conv, tile, o, sums)
                         : run_outputs<P, kOutputs, false>(conv, tile, o, sums);
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
