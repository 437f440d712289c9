// Tiles of Winograd F(4x4, 3x3) for ARM without dot products (winograd_f4.h).
#pragma once

#include "winograd_f4.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kTiles = 4;  // side by side in one row of tiles

// 16 bits of a row of B^T times six vectors of bytes, for the first eight of the sixteen channels or the last.
template <bool kHigh>
struct Half {
  INLINE static int16x8_t wide(int8x16_t x) {
    if constexpr (kHigh) return vmovl_high_s8(x);
    return vmovl_s8(vget_low_s8(x));
  }
  INLINE static int16x8_t difference(int8x16_t x, int8x16_t y) {
    if constexpr (kHigh) return vsubl_high_s8(x, y);
    return vsubl_s8(vget_low_s8(x), vget_low_s8(y));
  }
  INLINE static int16x8_t less_product(int16x8_t sum, int8x16_t x, int8x16_t y) {
    if constexpr (kHigh) return vmlsl_high_s8(sum, x, y);
    return vmlsl_s8(sum, vget_low_s8(x), vget_low_s8(y));
  }
};

// What B^T's rows have in common: c = d4 - d2, e = 2 (d3 - d1), a = d4 - 4 d2, b = d3 - 4 d1.
INLINE inline void combine(int16x8_t a, int16x8_t b, int16x8_t c, int16x8_t e, int16x8_t d0_less_d2,
                           int16x8_t d5_less_d3, int16x8_t* out) {
  out[0] = vmlaq_n_s16(c, d0_less_d2, 4);
  out[1] = vaddq_s16(a, b);
  out[2] = vsubq_s16(a, b);
  out[3] = vaddq_s16(c, e);
  out[4] = vsubq_s16(c, e);
  out[5] = vmlsq_n_s16(d5_less_d3, e, 2);
}

// B^T d of bytes.
template <bool kHigh>
INLINE inline void transform_bytes(const int8x16_t* d, int16x8_t* out) {
  using H = Half<kHigh>;
  const int8x16_t four = vdupq_n_s8(4);
  const int16x8_t a = H::less_product(H::wide(d[4]), d[2], four), b = H::less_product(H::wide(d[3]), d[1], four);
  const int16x8_t c = H::difference(d[4], d[2]), e = vshlq_n_s16(H::difference(d[3], d[1]), 1);
  combine(a, b, c, e, H::difference(d[0], d[2]), H::difference(d[5], d[3]), out);
}

// B^T d.
INLINE inline void transform_words(const int16x8_t* d, int16x8_t* out) {
  const int16x8_t a = vmlsq_n_s16(d[4], d[2], 4), b = vmlsq_n_s16(d[3], d[1], 4);
  const int16x8_t c = vsubq_s16(d[4], d[2]), e = vshlq_n_s16(vsubq_s16(d[3], d[1]), 1);
  combine(a, b, c, e, vsubq_s16(d[0], d[2]), vsubq_s16(d[5], d[3]), out);
}

// The points of one tile for sixteen channels: to[point][8] of the first eight, and `half` further those of the last.
// rows: the addresses of its six rows; `step` bytes from one pixel to the next.
INLINE inline void transform_input(const int8_t* const* rows, int64_t step, int16_t* to, int64_t half) {
  int16x8_t columns[2][kIn][kIn];  // [half][row of B^T][column of the tile]
  unrolled<kIn>([&](auto j) INLINE {
    int8x16_t d[kIn];
    unrolled<kIn>([&](auto i) INLINE { d[i.value] = vld1q_s8(rows[i.value] + j.value * step); });
    int16x8_t out[2][kIn];
    transform_bytes<false>(d, out[0]);
    transform_bytes<true>(d, out[1]);
    unrolled<2 * kIn>([&](auto i) INLINE {
      columns[i.value / kIn][i.value % kIn][j.value] = out[i.value / kIn][i.value % kIn];
    });
  });
  unrolled<2 * kIn>([&](auto i) INLINE {
    int16x8_t out[kIn];
    transform_words(columns[i.value / kIn][i.value % kIn], out);
    int16_t* at = to + i.value / kIn * half + i.value % kIn * kIn * 8;
    unrolled<kIn>([&](auto j) INLINE { vst1q_s16(at + j.value * 8, out[j.value]); });
  });
}

// sum + w x[lane], for sixteen outputs; the first product starts the sum.
template <int kLane, bool kFirst>
INLINE inline void add_products(int32x4_t* sum, int16x8_t x, int16x8_t w0, int16x8_t w1) {
  if constexpr (kFirst) {
    sum[0] = vmull_laneq_s16(vget_low_s16(w0), x, kLane);
    sum[1] = vmull_high_laneq_s16(w0, x, kLane);
    sum[2] = vmull_laneq_s16(vget_low_s16(w1), x, kLane);
    sum[3] = vmull_high_laneq_s16(w1, x, kLane);
  } else {
    sum[0] = vmlal_laneq_s16(sum[0], vget_low_s16(w0), x, kLane);
    sum[1] = vmlal_high_laneq_s16(sum[1], w0, x, kLane);
    sum[2] = vmlal_laneq_s16(sum[2], vget_low_s16(w1), x, kLane);
    sum[3] = vmlal_high_laneq_s16(sum[3], w1, x, kLane);
  }
}

constexpr int kTileWords = kPoints * 8, kGroupWords = kTiles * kTileWords;  // of eight channels

// Eight input channels of a point of T tiles, by sixteen outputs. weights: [8][16].
template <int T, bool kFirst>
INLINE inline void add_channels(const int16_t* in, const int16_t* weights, int32x4_t (*sums)[4]) {
  int16x8_t x[T];
  unrolled<T>([&](auto t) INLINE { x[t.value] = vld1q_s16(in + t.value * kTileWords); });
  unrolled<4>([&](auto two) INLINE {
    const int16x8x4_t w = vld1q_s16_x4(weights + two.value * 32);
    unrolled<2 * T>([&](auto i) INLINE {
      constexpr int t = i.value % T, second = i.value / T, lane = two.value * 2 + second;
      add_products<lane, kFirst && lane == 0>(sums[t], x[t], w.val[second * 2], w.val[second * 2 + 1]);
    });
  });
}

// All points of T tiles: in[groups of 8 channels][kTiles][point][8], weights[point][channels][16], out[T][point][16].
template <int T>
void multiply(const int16_t* in, const int16_t* weights, int32_t groups, int32_t* out) {
  for (int point = 0; point < kPoints; ++point, in += 8, out += kBlock) {
    int32x4_t sums[T][4];
    add_channels<T, true>(in, weights, sums);
    weights += 8 * kBlock;
    const int16_t* at = in + kGroupWords;
    for (int32_t group = 1; group < groups; ++group, at += kGroupWords, weights += 8 * kBlock)
      add_channels<T, false>(at, weights, sums);
    unrolled<T * 4>([&](auto i) INLINE {
      vst1q_s32(out + i.value / 4 * (kPoints * kBlock) + i.value % 4 * 4, sums[i.value / 4][i.value % 4]);
    });
  }
}

// A^T m.
INLINE inline void transform_sums(const int32x4_t* m, int32x4_t* out) {
  const int32x4_t s = vaddq_s32(m[1], m[2]), d = vsubq_s32(m[1], m[2]);
  const int32x4_t t = vaddq_s32(m[3], m[4]), e = vsubq_s32(m[3], m[4]);
  out[0] = vaddq_s32(vaddq_s32(m[0], s), t);
  out[1] = vaddq_s32(vaddq_s32(d, e), e);
  out[2] = vmlaq_n_s32(s, t, 4);
  out[3] = vmlaq_n_s32(vmlaq_n_s32(d, e, 8), m[5], 4);
}

// The accumulators of four channels of a tile. The second column of A^T is all ones, so 576 times the bias is added to
// the point (1, 1). in: [point][16], out: [4][pixels][16].
INLINE inline void transform_output(const int32_t* in, int32x4_t bias, int32_t pixels, int32_t* out) {
  int32x4_t rows[kSide][kIn];
  unrolled<kIn>([&](auto j) INLINE {
    int32x4_t m[kIn], y[kSide];
    unrolled<kIn>([&](auto i) INLINE { m[i.value] = vld1q_s32(in + (i.value * kIn + j.value) * kBlock); });
    if constexpr (j.value == 1) m[1] = vaddq_s32(m[1], bias);
    transform_sums(m, y);
    unrolled<kSide>([&](auto i) INLINE { rows[i.value][j.value] = y[i.value]; });
  });
  unrolled<kSide>([&](auto i) INLINE {
    int32x4_t y[kSide];
    transform_sums(rows[i.value], y);
    unrolled<kSide>([&](auto j) INLINE {
      const int32x4_t product = vmulq_n_s32(y[j.value], static_cast<int32_t>(kInverseOfNine));
      vst1q_s32(out + (i.value * pixels + j.value) * kBlock, vshrq_n_s32(product, 6));
    });
  });
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
