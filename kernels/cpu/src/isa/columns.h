// Depthwise convolutions 3 x 3 by columns of the input, without dilation and with equal strides of 1 or 2.
//
// A column is the bytes of three or four rows at one pixel, for sixteen channels, laid out for the multiply-add of the
// instruction set. It meets the taps of a kernel column; at stride 1 the same column, with the taps a row further
// down, gives the next output row, too. Each column is rearranged once for all outputs of its rows that read it, where
// taps_*.h rearrange the pixels of every kernel row.
//
// Included after the header of a column, which defines Column and ColumnTaps, on ARM run_columns, too.
// weights: [blocks][addends], each of 3 * ColumnTaps::kBytes.
#pragma once

#include "finish.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

inline int32_t column_addends(const Depthwise& conv) { return conv.rests ? 2 : 1; }

bool by_columns(const Depthwise& conv) {
  const Window& win = conv.window;
  return win.height == 3 && win.width == 3 && win.stride_x == win.stride_y && win.stride_x <= 2 &&
         conv.tap_row == conv.in.row && conv.tap_pixel == conv.in.pixel && !conv.is_wide;
}

size_t columns_bytes(const Depthwise& conv) {
  return size_t(conv.out.blocks()) * column_addends(conv) * 3 * ColumnTaps::kBytes;
}

void pack_columns(const Depthwise& conv, const int32_t* weights, uint8_t* packed) {
  const int32_t addends = column_addends(conv);
  for (int32_t c = 0; c < conv.out.channels; ++c)
    for (int32_t ky = 0; ky < 3; ++ky)
      for (int32_t kx = 0; kx < 3; ++kx) {
        int32_t weight = weights[(c * 3 + ky) * 3 + kx];
        for (int32_t part = 0; part < addends; ++part) {
          const int32_t taken = smaller(greater(weight, -128), 127);
          ColumnTaps::store(packed + (c / kBlock * addends + part) * 3 * ColumnTaps::kBytes, kx, c % kBlock, ky, taken);
          weight -= taken;
        }
      }
}

#if !defined(EM_ISA_NEON)

// One block of an output row, or of two (kRows). kRests: the block has second addends that are not 0.
template <int kStride, int kRows, bool kRests>
struct Columns {
  int64_t row, pixel;
  I32x16 bias;
  ColumnTaps taps[kRows][3], rests[kRows][3];

  INLINE Columns(const Depthwise& conv, int32_t block)
      : row(conv.in.row), pixel(conv.in.pixel), bias(load(conv.bias + block * kBlock)) {
    const uint8_t* from =
        static_cast<const uint8_t*>(conv.weights) + int64_t{block} * column_addends(conv) * 3 * ColumnTaps::kBytes;
    unrolled<3>([&](auto kx) INLINE {
      constexpr int x = kx.value;
      taps[0][x] = ColumnTaps::load(from + x * ColumnTaps::kBytes);
      if constexpr (kRests) rests[0][x] = ColumnTaps::load(from + (3 + x) * ColumnTaps::kBytes);
      if constexpr (kRows == 2) {
        taps[1][x] = taps[0][x].a_row_further();
        if constexpr (kRests) rests[1][x] = rests[0][x].a_row_further();
      }
    });
  }

  // The accumulators of an output whose three columns begin at `v`, in the output row r.
  template <int r>
  INLINE I32x16 sums(const Column* v) const {
    I32x16 acc = bias;
    unrolled<3>([&](auto kx) INLINE {
      v[kx.value].multiply_add(acc, taps[r][kx.value]);
      if constexpr (kRests) v[kx.value].multiply_add(acc, rests[r][kx.value]);
    });
    return acc;
  }

  // Four outputs of each row at a time, of which the last ones may be none: pixels after a row's last are ignored.
  template <typename Finish, typename Range>
  INLINE void run(const Depthwise& conv, uint8_t* arena, int32_t y, int32_t block, const Finish& finish,
                  const Range& range) const {
    constexpr int kShared = 3 - kStride, kColumns = 3 + 3 * kStride;  // of four outputs, with those of the next four
    const Window& win = conv.window;
    const uint8_t* in = arena + conv.in.at(int64_t{y} * kStride - win.top, -win.left) + block * kBlock;
    uint8_t* to = arena + conv.out.at(y, 0) + block * kBlock;
    const int64_t step = conv.out.pixel;
    Column v[kColumns];
    const auto load_columns = [&](auto first, auto last) INLINE {
      unrolled<last.value - first.value>([&](auto i) INLINE {
        v[first.value + i.value] = Column::load<kRows == 2>(in + i.value * pixel, row);
      });
      in += (last.value - first.value) * pixel;
    };
    load_columns(Constant<kColumns - kShared>(), Constant<kColumns>());
    for (int32_t x = 0; x < conv.out.width; x += 4, to += 4 * step) {
      unrolled<kShared>([&](auto i) INLINE { v[i.value] = v[kColumns - kShared + i.value]; });
      load_columns(Constant<kShared>(), Constant<kColumns>());
      unrolled<kRows>([&](auto r) INLINE {
        I32x16 result[4];
        unrolled<4>([&](auto i) INLINE { result[i.value] = finish(sums<r.value>(v + i.value * kStride)); });
        uint8_t* out = to + r.value * conv.out.row;
        if (x + 4 <= conv.out.width)
          store_bytes(out, step, result[0], result[1], result[2], result[3], range);
        else
          for (int32_t i = 0; x + i < conv.out.width; ++i) store_bytes(out + i * step, result[i], range);
      });
    }
  }
};

template <int kStride, int kRows>
INLINE inline void run_columns(const Depthwise& conv, uint8_t* arena, int32_t y) {
  for (int32_t block = 0; block < conv.out.blocks(); ++block)
    with_stored_method(conv.requantize, block, [&](const auto& finish, const auto& range) INLINE {
      if (conv.rests != nullptr && conv.rests[block] != 0)
        return Columns<kStride, kRows, true>(conv, block).run(conv, arena, y, block, finish, range);
      Columns<kStride, kRows, false>(conv, block).run(conv, arena, y, block, finish, range);
    });
}

#endif

void run_by_columns(const Depthwise& conv, uint8_t* arena, int32_t first, int32_t last) {
  int32_t y = first;
  if (conv.window.stride_y == 2) {
    for (; y < last; ++y) run_columns<2, 1>(conv, arena, y);
    return;
  }
  for (; y + 2 <= last; y += 2) run_columns<1, 2>(conv, arena, y);
  if (y < last) run_columns<1, 1>(conv, arena, y);
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
