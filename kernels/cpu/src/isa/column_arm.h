// A column with sdot: the four bytes of a lane are one channel of four rows, four channels a register.
//
// The columns of two outputs of two rows take sixteen registers, which leaves too few for all taps: these are loaded
// for four channels at a time, and the sums go through memory.
#pragma once

#include "finish.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// The taps of a block, int8 [4 quarters][2 output rows][3 kernel columns][4 channels][4]: those of the second output
// row lie a row further down.
struct ColumnTaps {
  static constexpr int kBytes = 128;  // of a kernel column

  static void store(uint8_t* taps, int32_t kx, int32_t channel, int32_t ky, int32_t weight) {
    for (int32_t row = 0; row < 2; ++row)
      taps[((channel / 4 * 2 + row) * 3 + kx) * 16 + channel % 4 * 4 + ky + row] = static_cast<uint8_t>(weight);
  }
};

constexpr int kStripColumns = 32;  // pixels: two rows are 4 KB of sums

struct Column {
  int8x16_t quarter[4];

  template <bool kFourRows>
  static INLINE Column load(const uint8_t* in, int64_t row) {
    const auto at = [&](int y) INLINE { return vreinterpretq_s8_u8(vld1q_u8(in + y * row)); };
    const int8x16_t x0 = at(0), x1 = at(1), x2 = at(2), x3 = kFourRows ? at(3) : x2;
    const int16x8_t a = vreinterpretq_s16_s8(vzip1q_s8(x0, x1)), b = vreinterpretq_s16_s8(vzip1q_s8(x2, x3));
    const int16x8_t c = vreinterpretq_s16_s8(vzip2q_s8(x0, x1)), d = vreinterpretq_s16_s8(vzip2q_s8(x2, x3));
    return {{vreinterpretq_s8_s16(vzip1q_s16(a, b)), vreinterpretq_s8_s16(vzip2q_s16(a, b)),
             vreinterpretq_s8_s16(vzip1q_s16(c, d)), vreinterpretq_s8_s16(vzip2q_s16(c, d))}};
  }
};

// The sums of a strip of one block, of an output row or of two (kRows). All weights fit int8: there are no rests.
template <int kStride, int kRows>
struct Columns {
  const int8_t* taps;
  const int32_t* bias;

  Columns(const Depthwise& conv, int32_t block)
      : taps(static_cast<const int8_t*>(conv.weights) + int64_t{block} * 3 * ColumnTaps::kBytes),
        bias(conv.bias + block * kBlock) {}

  // Those of two outputs of each row whose columns begin at `v`.
  INLINE void add_up(const Column* v, int32_t* sums) const {
    unrolled<4>([&](auto q) INLINE {
      constexpr int quarter = q.value;
      const int32x4_t start = vld1q_s32(bias + quarter * 4);
      // All four take one instruction after the other, so that none waits for the one before, as in-order cores would.
      int32x4_t acc[kRows][2];
      int8x16x3_t w[kRows];
      unrolled<kRows>([&](auto r) INLINE {
        w[r.value] = vld1q_s8_x3(taps + (quarter * 2 + r.value) * 48);
        acc[r.value][0] = acc[r.value][1] = start;
      });
      unrolled<3>([&](auto kx) INLINE {
        unrolled<2 * kRows>([&](auto j) INLINE {
          constexpr int r = j.value / 2, i = j.value % 2;
          acc[r][i] = vdotq_s32(acc[r][i], v[i * kStride + kx.value].quarter[quarter], w[r].val[kx.value]);
        });
      });
      unrolled<2 * kRows>([&](auto j) INLINE {
        constexpr int r = j.value / 2, i = j.value % 2;
        vst1q_s32(sums + (r * kStripColumns + i) * kBlock + quarter * 4, acc[r][i]);
      });
    });
  }

  // sums: [kRows][kStripColumns][16], of `pixels` and up to three more. in: the first column.
  void run(const uint8_t* in, int64_t row, int64_t pixel, int32_t pixels, int32_t* sums) const {
    constexpr int kShared = 3 - kStride, kColumns = 3 + 3 * kStride;  // of four outputs, with those of the next four
    Column v[kColumns];
    const auto load_columns = [&](auto first, auto last) INLINE {
      unrolled<last.value - first.value>([&](auto i) INLINE {
        v[first.value + i.value] = Column::load<kRows == 2>(in, row);
        in += pixel;
      });
    };
    load_columns(Constant<kColumns - kShared>(), Constant<kColumns>());
    for (int32_t x = 0; x < pixels; x += 4, sums += 4 * kBlock) {
      unrolled<kShared>([&](auto i) INLINE { v[i.value] = v[kColumns - kShared + i.value]; });
      load_columns(Constant<kShared>(), Constant<3 + kStride>());
      add_up(v, sums);
      load_columns(Constant<3 + kStride>(), Constant<kColumns>());
      add_up(v + 2 * kStride, sums + 2 * kBlock);
    }
  }
};

__attribute__((noinline)) void finish(const Depthwise& conv, uint8_t* out, int32_t block, int32_t pixels,
                                      const int32_t* sums) {
  finish_pixels(conv.requantize, block, out + block * kBlock, conv.out.pixel, pixels, sums);
}

// Strip by strip, as conv_strips.h: what requantizes the sums exists once for all strides.
template <int kStride, int kRows>
void run_columns(const Depthwise& conv, uint8_t* arena, int32_t y) {
  alignas(64) int32_t sums[kRows * kStripColumns * kBlock];
  for (int32_t block = 0; block < conv.out.blocks(); ++block) {
    const Columns<kStride, kRows> columns(conv, block);
    for (int32_t x = 0; x < conv.out.width; x += kStripColumns) {
      const int32_t pixels = smaller(kStripColumns, conv.out.width - x);
      const uint8_t* in =
          arena + conv.in.at(int64_t{y} * kStride - conv.window.top, int64_t{x} * kStride - conv.window.left);
      columns.run(in + block * kBlock, conv.in.row, conv.in.pixel, pixels, sums);
      for (int32_t row = 0; row < kRows; ++row)
        finish(conv, arena + conv.out.at(y + row, x), block, pixels, sums + row * kStripColumns * kBlock);
    }
  }
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
