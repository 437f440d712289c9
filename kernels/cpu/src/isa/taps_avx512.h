// Taps of a depthwise convolution with VNNI, whose multiply-add sums four products of neighbouring bytes.
//
// Four pixels by sixteen channels are transposed, so that the four bytes of a lane are one channel of the four
// pixels; they meet the taps of one kernel row. A kernel row of up to four taps needs one such vector and leaves
// room: shifted by s bytes, the weights are those of the output s pixels on. Three taps at stride 1 so give two
// outputs, one tap four. Rows of five to eight taps take two vectors. Places without a tap have the weight 0; pixels
// after the last are read, and ignored. Weights that do not fit int8 are sums of two that do, for the same pixels; the
// second ones are skipped where they are all 0, which they are in most rows.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

inline int32_t addends(const Depthwise& conv) { return conv.rests ? 2 : 1; }

// V vectors in each kernel row give J outputs; weights [blocks][kernel rows][V][addends][J][16][4], one addend or two.
template <int V, int J>
struct Taps {
  static constexpr int kPixels = J;

  int32_t rows, block;
  uint32_t rests;  // of the block, see Depthwise
  int32_t skipped;  // bytes of second addends
  int64_t row, pixel;
  const int8_t* weights;
  I32x16 bias;
  __m512i dwords, transpose;

  INLINE Taps(const Depthwise& conv, int32_t number)
      : rows(conv.window.height),
        block(number),
        rests(conv.rests ? conv.rests[number] : 0),
        skipped(conv.rests ? J * 64 : 0),
        row(conv.tap_row),
        pixel(conv.tap_pixel),
        weights(static_cast<const int8_t*>(conv.weights) + int64_t{number} * rows * V * J * addends(conv) * 64),
        bias(load(conv.bias + number * kBlock)),
        dwords(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15)),
        transpose(_mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15))) {}

  INLINE __m512i four_pixels(const uint8_t* in) const {
    const auto at = [](const uint8_t* p) INLINE { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); };
    __m512i x = _mm512_castsi128_si512(at(in));
    x = _mm512_inserti32x4(x, at(in + pixel), 1);
    x = _mm512_inserti32x4(x, at(in + 2 * pixel), 2);
    x = _mm512_inserti32x4(x, at(in + 3 * pixel), 3);
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, x), transpose);
  }

  INLINE void accumulate(const uint8_t* in, I32x16* acc) const {
    unrolled<J>([&](auto j) INLINE { acc[j.value] = bias; });
    const int8_t* weight = weights;
    for (int32_t ky = 0; ky < rows; ++ky, in += row) {
      unrolled<V>([&](auto v) INLINE {
        const __m512i x = four_pixels(in + 4 * v.value * pixel);
        const auto add = [&]() INLINE {
          unrolled<J>([&](auto j) INLINE {
            acc[j.value].v = _mm512_dpbusd_epi32(acc[j.value].v, x, _mm512_loadu_si512(weight));
            weight += 64;
          });
        };
        add();
        if (rests >> smaller(ky, 31) & 1)
          add();
        else
          weight += skipped;
      });
    }
  }
};

inline int32_t vectors(const Depthwise& conv) { return (conv.window.width + 3) / 4; }

// Outputs whose taps lie within the vectors of a kernel row: a power of two.
inline int32_t joint_pixels(const Depthwise& conv) {
  if (conv.tap_pixel != conv.in.pixel) return 1;
  const int32_t fit = (4 * vectors(conv) - conv.window.width) / conv.window.stride_x + 1;
  return fit >= 4 ? 4 : fit >= 2 ? 2 : 1;
}

constexpr int32_t kLeastTap = -256, kGreatestTap = 254;
bool fits_taps(const Depthwise& conv) {
  // With dilation the places after the last tap are further away.
  const int32_t read = (4 * vectors(conv) - conv.window.width) * (conv.tap_pixel / conv.in.pixel);
  return conv.window.width <= 8 && read <= kReadAhead;
}

size_t taps_bytes(const Depthwise& conv) {
  return size_t(conv.out.blocks()) * conv.window.height * vectors(conv) * joint_pixels(conv) * addends(conv) * 64;
}

void pack_taps(const Depthwise& conv, const int32_t* weights, uint8_t* packed) {
  const int32_t v_count = vectors(conv), j_count = joint_pixels(conv), taps = conv.window.width, parts = addends(conv);
  for (int32_t c = 0; c < conv.out.channels; ++c)
    for (int32_t ky = 0; ky < conv.window.height; ++ky)
      for (int32_t kx = 0; kx < taps; ++kx)
        for (int32_t j = 0; j < j_count; ++j) {
          const int32_t place = kx + j * conv.window.stride_x;
          const int64_t row = int64_t{c / kBlock} * conv.window.height + ky;
          const int64_t vector = (row * v_count + place / 4) * parts * j_count + j;
          const int32_t weight = weights[(int64_t{c} * conv.window.height + ky) * taps + kx];
          const int32_t first = smaller(greater(weight, -128), 127);
          uint8_t* to = packed + (vector * kBlock + c % kBlock) * 4 + place % 4;
          to[0] = static_cast<uint8_t>(first);
          if (parts > 1) to[j_count * kBlock * 4] = static_cast<uint8_t>(weight - first);
        }
}

template <typename Use>
inline void with_taps(const Depthwise& conv, Use use) {
  const int32_t v = vectors(conv), j = joint_pixels(conv);
  if (v == 1) return j == 4 ? use(Type<Taps<1, 4>>()) : j == 2 ? use(Type<Taps<1, 2>>()) : use(Type<Taps<1, 1>>());
  return j == 4 ? use(Type<Taps<2, 4>>()) : j == 2 ? use(Type<Taps<2, 2>>()) : use(Type<Taps<2, 1>>());
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
