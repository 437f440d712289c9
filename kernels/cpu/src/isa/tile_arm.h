// Tiles of ARM's instruction sets: the accumulators of P pixels of one output row by sixteen channels.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// Inputs of tiles. `in` is the window of the first pixel; that of the next pixel is `step` bytes further.
struct TileInput {
  const int8_t* in;
  int64_t step;
  const int8_t* weights;
  const int32_t* bias;
  int32_t lowest_pairs;  // of the block, see Conv
  const int8_t* starts;  // of narrow sums (lowbit/tile_bytes_arm.h)

  TileInput from(int32_t pixel) const { return {in + pixel * step, step, weights, bias, lowest_pairs, starts}; }
};

// Writes the accumulators of `tiles` neighbouring tiles to sums[tiles][P][16].
using RunTiles = void (*)(const Conv&, const TileInput&, int32_t tiles, int32_t* sums);

#if defined(__aarch64__)
// The next 64 weights. The empty statement hides from GCC 12 that the addresses of neighbouring loads differ by
// constants: it would add these to one of them, where the load itself can move its address on.
INLINE inline int8x16x4_t load_next(const int8_t*& weights) {
  const int8x16x4_t w = vld1q_s8_x4(weights);
  weights += 64;
  asm("" : "+r"(weights));
  return w;
}
#else
// One instruction loads 32, which GCC 12 has no name for.
INLINE inline int8x16x4_t load_next(const int8_t*& weights) {
  const auto load_two = [&]() INLINE {
    int8x16x2_t two;
    asm("vld1.8 %h0, [%1]!"
        : "=w"(two), "+r"(weights)
        : "m"(*reinterpret_cast<const int8_t(*)[32]>(weights)));
    return two;
  };
  const int8x16x2_t a = load_two(), b = load_two();
  return {a.val[0], a.val[1], b.val[0], b.val[1]};
}
#endif

// The sums of the lanes of each register.
INLINE inline int32x4_t sums_of(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d) {
#if defined(__aarch64__)
  return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
#else
  const auto halves = [](int32x4_t x) { return vadd_s32(vget_low_s32(x), vget_high_s32(x)); };
  return vcombine_s32(vpadd_s32(halves(a), halves(b)), vpadd_s32(halves(c), halves(d)));
#endif
}

// The bytes of a window. The sizes are in locals, since the compiler could not know that stores leave the arguments as
// they are; steps move the address of the weights on, which an instruction does that loads them.
struct WindowOf {
  int64_t span_step, row_step;
  int32_t spans, height, span;
  bool shares_taps;  // three taps of a row, which are as far from each other as the pixels of a tile

  INLINE WindowOf(const Conv& conv, int64_t step)
      : span_step(conv.span_step),
        row_step(conv.tap_row),
        spans(conv.spans),
        height(conv.window.height),
        span(conv.span),
        shares_taps(conv.window.width == 3 && span_step == step && span_step % 16 == 0 &&
                    (spans == 3 || span == 3 * span_step)) {}

  // Calls step(inputs, weights) for each sixteen input bytes, with their weights by sixteen channels.
  template <typename Step>
  INLINE void each(const int8_t* row, const int8_t* weights, const Step& step) const {
    for (int32_t ky = height; ky > 0; --ky, row += row_step) {
      const int8_t* run = row;
      for (int32_t s = spans; s > 0; --s, run += span_step) {
        const int8_t* in = run;
        for (int32_t d = span; d > 0; d -= 16, in += 16) step(in, weights);
      }
    }
  }

  // Where taps are shared, calls step(inputs, weights[3]) for sixteen channels of the first tap of each row.
  template <typename Step>
  INLINE void each_three(const int8_t* row, const int8_t* weights, const Step& step) const {
    const int32_t depth = spans == 3 ? span : static_cast<int32_t>(span_step);
    const int64_t tap = int64_t{depth} * kBlock;
    for (int32_t ky = height; ky > 0; --ky, row += row_step) {
      const int8_t *in = row, *of_tap[3] = {weights, weights + tap, weights + 2 * tap};
      for (int32_t d = depth; d > 0; d -= 16, in += 16) step(in, of_tap);
      weights = of_tap[2];
    }
  }
};

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
