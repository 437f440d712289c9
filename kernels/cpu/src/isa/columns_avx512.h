// Depthwise convolutions 3 x 3 with VNNI, by columns of the input, without dilation and with equal strides of 1 or 2.
//
// The four bytes of a lane are one channel of four rows of a column. Three of them meet the taps of a kernel column; at
// stride 1 the same vector, with the taps a byte further, gives the next output row, too. Each column is transposed
// once for all outputs of its rows that read it, where taps_avx512.h transposes the pixels of every kernel row.
//
// weights: [blocks][addends][3 kernel columns][16][4], the fourth byte 0; addends as in taps_avx512.h.
#pragma once

#include "finish.h"
#include "table.h"
#include "taps_avx512.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

bool by_columns(const Depthwise& conv) {
  const Window& win = conv.window;
  return win.height == 3 && win.width == 3 && win.stride_x == win.stride_y && win.stride_x <= 2 &&
         conv.tap_row == conv.in.row && conv.tap_pixel == conv.in.pixel;
}

size_t columns_bytes(const Depthwise& conv) { return size_t(conv.out.blocks()) * addends(conv) * 3 * 64; }

void pack_columns(const Depthwise& conv, const int32_t* weights, uint8_t* packed) {
  const int32_t parts = addends(conv);
  for (int32_t c = 0; c < conv.out.channels; ++c)
    for (int32_t ky = 0; ky < 3; ++ky)
      for (int32_t kx = 0; kx < 3; ++kx) {
        const int32_t weight = weights[(c * 3 + ky) * 3 + kx], first = smaller(greater(weight, -128), 127);
        uint8_t* to = packed + (c / kBlock * parts * 3 + kx) * 64 + c % kBlock * 4 + ky;
        to[0] = static_cast<uint8_t>(first);
        if (parts > 1) to[3 * 64] = static_cast<uint8_t>(weight - first);
      }
}

// One block of an output row, or of two (kRows). kRests: the block has second addends that are not 0.
template <int kStride, int kRows, bool kRests>
struct Columns {
  int64_t row, pixel;
  I32x16 bias;
  __m512i dwords, transpose, taps[kRows][3], rests[kRows][3];

  INLINE Columns(const Depthwise& conv, int32_t block)
      : row(conv.in.row),
        pixel(conv.in.pixel),
        bias(load(conv.bias + block * kBlock)),
        dwords(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)),
        transpose(_mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15))) {
    const int8_t* from = static_cast<const int8_t*>(conv.weights) + int64_t{block} * addends(conv) * 3 * 64;
    unrolled<3>([&](auto kx) INLINE {
      taps[0][kx.value] = _mm512_loadu_si512(from + kx.value * 64);
      if constexpr (kRests) rests[0][kx.value] = _mm512_loadu_si512(from + (3 + kx.value) * 64);
      if constexpr (kRows == 2) {
        taps[1][kx.value] = _mm512_slli_epi32(taps[0][kx.value], 8);
        if constexpr (kRests) rests[1][kx.value] = _mm512_slli_epi32(rests[0][kx.value], 8);
      }
    });
  }

  INLINE __m512i column(const uint8_t* in) const {
    const auto at = [](const uint8_t* p) INLINE { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); };
    __m512i x = _mm512_castsi128_si512(at(in));
    x = _mm512_inserti32x4(x, at(in + row), 1);
    x = _mm512_inserti32x4(x, at(in + 2 * row), 2);
    if constexpr (kRows == 2) x = _mm512_inserti32x4(x, at(in + 3 * row), 3);
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, x), transpose);
  }

  // The accumulators of an output whose three columns begin at `v`, in the output row r.
  template <int r>
  INLINE I32x16 sums(const __m512i* v) const {
    I32x16 acc = bias;
    unrolled<3>([&](auto kx) INLINE {
      acc.v = _mm512_dpbusd_epi32(acc.v, v[kx.value], taps[r][kx.value]);
      if constexpr (kRests) acc.v = _mm512_dpbusd_epi32(acc.v, v[kx.value], rests[r][kx.value]);
    });
    return acc;
  }

  // Four outputs of each row at a time, of which the last ones may be none: pixels after a row's last are ignored.
  template <typename Finish>
  INLINE void run(const Depthwise& conv, uint8_t* arena, int32_t y, int32_t block, const Finish& finish) const {
    constexpr int kShared = 3 - kStride, kColumns = 3 + 3 * kStride;  // of four outputs, with those of the next four
    const Window& win = conv.window;
    const uint8_t* in = arena + conv.in.at(int64_t{y} * kStride - win.top, -win.left) + block * kBlock;
    uint8_t* to = arena + conv.out.at(y, 0) + block * kBlock;
    const int64_t step = conv.out.pixel;
    __m512i v[kColumns];
    unrolled<kShared>([&](auto i) INLINE { v[kColumns - kShared + i.value] = column(in + i.value * pixel); });
    in += kShared * pixel;
    for (int32_t x = 0; x < conv.out.width; x += 4, to += 4 * step) {
      unrolled<kShared>([&](auto i) INLINE { v[i.value] = v[kColumns - kShared + i.value]; });
      unrolled<kColumns - kShared>([&](auto i) INLINE { v[kShared + i.value] = column(in + i.value * pixel); });
      in += (kColumns - kShared) * pixel;
      unrolled<kRows>([&](auto r) INLINE {
        I32x16 result[4];
        unrolled<4>([&](auto i) INLINE { result[i.value] = finish(sums<r.value>(v + i.value * kStride)); });
        uint8_t* out = to + r.value * conv.out.row;
        if (x + 4 <= conv.out.width)
          store_bytes(out, step, result[0], result[1], result[2], result[3]);
        else
          for (int32_t i = 0; x + i < conv.out.width; ++i) store_bytes(out + i * step, result[i]);
      });
    }
  }
};

template <int kStride, int kRows>
INLINE inline void run_columns(const Depthwise& conv, uint8_t* arena, int32_t y) {
  for (int32_t block = 0; block < conv.out.blocks(); ++block)
    with_method(conv.requantize, block, true, [&](const auto& finish) INLINE {
      if (conv.rests != nullptr && conv.rests[block] != 0)
        Columns<kStride, kRows, true>(conv, block).run(conv, arena, y, block, finish);
      else
        Columns<kStride, kRows, false>(conv, block).run(conv, arena, y, block, finish);
    });
}

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
