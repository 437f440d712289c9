// Tiles with narrow sums, for few bits on ARM without dot products: sixteen inputs times sixteen weights of an output
// are added to eight sums in int16 (smlal, smlal2: two instructions where the plain tile takes three) or to sixteen in
// int8 (mla: one).
//
// Both wrap, and nothing is lost by that: the planner has found `steps` so that the sum of w (u - middle) over so many
// neighbouring steps fits the lane for all inputs (narrow_sums.h), and sums begin at -middle * (sum of w), so
//
//   start + sum of w u = sum of w (u - middle)    (modulo 2**16 or 2**8).
//
// After `steps` they are widened. So inputs need not be prepared, whatever integer they begin at. The starts of a block
// are found from its weights, once for all rows.
#pragma once

#include "../tile_arm.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

#if defined(__aarch64__)
constexpr int kPixels = 3;  // by eight outputs: 24 registers, and seven for inputs and weights
#else
constexpr int kPixels = 2;  // by four outputs: eight registers, and six
#endif

// The sums of an output.
struct InInt16 {
  int16x8_t sum;
  InInt16() = default;
  INLINE explicit InInt16(int8x16_t start) : sum(vreinterpretq_s16_s8(start)) {}
  INLINE int8x16_t negated() const { return vreinterpretq_s8_s16(vnegq_s16(sum)); }
  INLINE void add(int8x16_t x, int8x16_t w) {
    sum = vmlal_s8(sum, vget_low_s8(x), vget_low_s8(w));
#if defined(__aarch64__)
    sum = vmlal_high_s8(sum, x, w);
#else
    sum = vmlal_s8(sum, vget_high_s8(x), vget_high_s8(w));
#endif
  }
};

struct InInt8 {
  int8x16_t sum;
  InInt8() = default;
  INLINE explicit InInt8(int8x16_t start) : sum(start) {}
  INLINE int8x16_t negated() const { return vnegq_s8(sum); }
  INLINE void add(int8x16_t x, int8x16_t w) { sum = vmlaq_s8(sum, x, w); }
};

// Sums of neighbours: those of a, then those of b.
INLINE inline int16x8_t add_pairs(int16x8_t a, int16x8_t b) {
#if defined(__aarch64__)
  return vpaddq_s16(a, b);
#else
  return vcombine_s16(vpadd_s16(vget_low_s16(a), vget_high_s16(a)), vpadd_s16(vget_low_s16(b), vget_high_s16(b)));
#endif
}

// The totals of four outputs.
INLINE inline int32x4_t totals(const InInt16* of) {
  return sums_of(vpaddlq_s16(of[0].sum), vpaddlq_s16(of[1].sum), vpaddlq_s16(of[2].sum), vpaddlq_s16(of[3].sum));
}

// Eight of int8 fit int16.
INLINE inline int32x4_t totals(const InInt8* of) {
  const int16x8_t a = add_pairs(vpaddlq_s8(of[0].sum), vpaddlq_s8(of[1].sum));
  const int16x8_t b = add_pairs(vpaddlq_s8(of[2].sum), vpaddlq_s8(of[3].sum));
  return vpaddlq_s16(add_pairs(a, b));
}

// Bytes of the starts of a block, [16 / kNarrowOutputs][sums after each other][kNarrowOutputs][16].
inline int64_t start_bytes(const Conv& conv) {
  const int64_t steps = conv.block_bytes / (16 * kBlock);
  return (steps + conv.steps - 1) / conv.steps * kBlock * 16;
}

// weights: of a block, unpacked.
template <typename Sums>
void find_starts(const Conv& conv, const int8_t* weights, int8_t* starts) {
  const auto all = static_cast<int32_t>(conv.block_bytes / (16 * kBlock));
  const int8x16_t middle = vdupq_n_s8(static_cast<int8_t>(conv.low)), zero = vdupq_n_s8(0);
  for (int part = 0; part < kBlock / kNarrowOutputs; ++part)
    for (int32_t first = 0; first < all; first += conv.steps) {
      Sums sums[kNarrowOutputs];
      unrolled<kNarrowOutputs>([&](auto o) INLINE { sums[o.value] = Sums(zero); });
      for (int32_t left = smaller(conv.steps, all - first); left > 0; --left)
        unrolled<kNarrowOutputs / 4>([&](auto four) INLINE {
          const Weights w = load_next(weights);
          unrolled<4>([&](auto i) INLINE { sums[four.value * 4 + i.value].add(middle, w.val[i.value]); });
        });
      unrolled<kNarrowOutputs>([&](auto o) INLINE { vst1q_s8(starts + o.value * 16, sums[o.value].negated()); });
      starts += kNarrowOutputs * 16;
    }
}

// Sixteen inputs; the address moves on, as load_next does it.
INLINE inline int8x16_t load_inputs(const int8_t*& in) {
  const int8x16_t x = vld1q_s8(in);
  in += 16;
  asm("" : "+r"(in));
  return x;
}

// Adds the products of P pixels and kNarrowOutputs outputs to sums[P][16].
template <int P, typename Sums>
INLINE inline void run_outputs(const WindowOf& window, const int8_t* row, int64_t step, const int8_t* weights,
                               const int8_t* starts, int32_t steps, int32_t* sums) {
  constexpr int O = kNarrowOutputs;
  Sums acc[P][O];
  const auto begin = [&]() INLINE {
    unrolled<O / 4>([&](auto four) INLINE {
      const Weights start = load_next(starts);
      unrolled<P * 4>([&](auto i) INLINE {
        acc[i.value / 4][four.value * 4 + i.value % 4] = Sums(start.val[i.value % 4]);
      });
    });
  };
  const auto widen = [&]() INLINE {
    unrolled<P * O / 4>([&](auto i) INLINE {
      constexpr int p = i.value / (O / 4), o = i.value % (O / 4) * 4;
      int32_t* to = sums + p * kBlock + o;
      vst1q_s32(to, vaddq_s32(vld1q_s32(to), totals(acc[p] + o)));
    });
  };
  begin();
  int32_t left = steps;
  for (int32_t ky = window.height; ky > 0; --ky, row += window.row_step) {
    const int8_t* run = row;
    for (int32_t s = window.spans; s > 0; --s, run += window.span_step) {
      const int8_t* in[P];
      unrolled<P>([&](auto p) INLINE { in[p.value] = run + p.value * step; });
      for (int32_t rest = window.span / 16; rest > 0;) {
        if (left == 0) {
          widen();
          begin();
          left = steps;
        }
        int32_t count = smaller(rest, left);
        rest -= count;
        left -= count;
        for (; count > 0; --count) {
          int8x16_t x[P];
          unrolled<P>([&](auto p) INLINE { x[p.value] = load_inputs(in[p.value]); });
          unrolled<O / 4>([&](auto four) INLINE {
            const Weights w = load_next(weights);
            unrolled<P * 4>([&](auto i) INLINE {
              acc[i.value % P][four.value * 4 + i.value / P].add(x[i.value % P], w.val[i.value / P]);
            });
          });
        }
      }
    }
  }
  widen();
}

template <int P, typename Sums>
INLINE inline void run_all(const Conv& conv, const WindowOf& given, const TileInput& input, int32_t tiles,
                           int32_t* sums) {
  constexpr int kParts = kBlock / kNarrowOutputs;
  const WindowOf window = given;
  const int64_t step = input.step, of_weights = conv.block_bytes / kParts, of_starts = start_bytes(conv) / kParts;
  const int8_t *corner = input.in, *weights = input.weights, *starts = input.starts;
  const int32_t* bias = input.bias;
  const int32_t steps = conv.steps;
  for (; tiles > 0; --tiles, corner += P * step, sums += P * kBlock) {
    unrolled<P * 4>([&](auto i) INLINE { vst1q_s32(sums + i.value * 4, vld1q_s32(bias + i.value % 4 * 4)); });
    for (int part = 0; part < kParts; ++part)
      run_outputs<P, Sums>(window, corner, step, weights + part * of_weights, starts + part * of_starts, steps,
                           sums + part * kNarrowOutputs);
  }
}

template <int P>
void run_tiles(const Conv& conv, const WindowOf& window, const TileInput& input, int32_t tiles, int32_t* sums) {
  conv.sum_bytes == 1 ? run_all<P, InInt8>(conv, window, input, tiles, sums)
                      : run_all<P, InInt16>(conv, window, input, tiles, sums);
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
