// Layers that copy elements to other places, and the bilinear resize.
#include "table.h"

namespace edgemeta::EM_NAMESPACE {

// Copies one input of a concatenation to its channels of the output.
void concat(const Copy& copy, uint8_t* arena, int32_t first, int32_t last) {
  for (int32_t y = first; y < last; ++y)
    for (int32_t x = 0; x < copy.in.width; ++x)
      memcpy(arena + copy.out.at(y, x) + copy.channel, arena + copy.in.at(y, x), static_cast<size_t>(copy.in.channels));
}

// To pixels of four bytes; the fourth has weights of 0. Reads only the pixels' own bytes.
void load_pixels(const uint8_t* image, uint8_t* row, int32_t width, uint8_t flip) {
  int32_t x = 0;
#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)
  const __m128i order = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
  const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
  for (; x + 6 <= width; x += 4) {
    const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i*>(image + 3 * x));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(row + 4 * x), _mm_xor_si128(_mm_shuffle_epi8(four, order), flips));
  }
#elif defined(EM_ISA_NEON)
  const uint8x16_t flips = vdupq_n_u8(flip);
  for (; x + 16 <= width; x += 16) {
    const uint8x16x3_t from = vld3q_u8(image + 3 * x);
    const uint8x16x4_t to = {
        veorq_u8(from.val[0], flips), veorq_u8(from.val[1], flips), veorq_u8(from.val[2], flips), flips};
    vst4q_u8(row + 4 * x, to);
  }
#endif
  for (; x < width; ++x)
    for (int32_t c = 0; c < 3; ++c) row[4 * x + c] = image[3 * x + c] ^ flip;
}

// One row of a gather; from: null for zero points. Pixels as whole blocks: what the last one holds after the last
// channel is never used.
template <bool is_pixel>
void gather_row(const ElementGather& op, const uint8_t* from, uint8_t* to) {
  const int64_t *columns = op.columns, *channels = op.channels;  // a store of a byte could be one to `op`
  const int32_t width = op.out.width, pixel = op.out.pixel, zero = op.out.zero;
  const int32_t bytes = is_pixel ? op.out.blocks() * kBlock : op.out.channels;
  for (int32_t x = 0; x < width; ++x, to += pixel) {
    const int64_t column = columns[x];
    int32_t c = 0;
    if (from == nullptr || column < 0) {
      memset(to, zero, static_cast<size_t>(bytes));
    } else if (is_pixel) {
      for (; c + 4 * kBlock <= bytes; c += 4 * kBlock) memcpy(to + c, from + column + c, 4 * kBlock);
      for (; c < bytes; c += kBlock) memcpy(to + c, from + column + c, kBlock);
    } else {
      for (; c < bytes; ++c) to[c] = from[column + channels[c]];
    }
  }
}

void gather(const ElementGather& op, uint8_t* arena, int32_t first, int32_t last) {
  for (int32_t y = first; y < last; ++y) {
    const uint8_t* from = op.rows[y] < 0 ? nullptr : arena + op.in.origin + op.rows[y];
    (op.channels == nullptr ? gather_row<true> : gather_row<false>)(op, from, arena + op.out.at(y, 0));
  }
}

// The weights of the four neighbours sum to 2**22, so that a sum stays below 2**30; adding 128 to every element before
// the rounding or after it is the same.
void bilinear(const Bilinear& op, uint8_t* arena, int32_t first, int32_t last) {
  constexpr int32_t kOne = 1 << 11, kHalf = 1 << 21;
  for (int32_t y = first; y < last; ++y) {
    const int32_t below = op.rows.weight[y], above = kOne - below;
    for (int32_t x = 0; x < op.out.width; ++x) {
      const int32_t right = op.columns.weight[x], left = kOne - right;
      const uint8_t* rows[2] = {arena + op.in.at(op.rows.lower[y], 0), arena + op.in.at(op.rows.upper[y], 0)};
      const int64_t at_left = int64_t{op.columns.lower[x]} * op.in.pixel;
      const int64_t at_right = int64_t{op.columns.upper[x]} * op.in.pixel;
      uint8_t* out = arena + op.out.at(y, x);
      for (int32_t c = 0; c < op.out.channels; c += kBlock) {
        const auto across = [&](const uint8_t* row) {
          return load_bytes(row + at_left + c) * splat(left) + load_bytes(row + at_right + c) * splat(right);
        };
        const I32x16 sum = across(rows[0]) * splat(above) + across(rows[1]) * splat(below);
        store_bytes(out + c, shift_right(sum + splat(kHalf), 22));
      }
    }
  }
}

}  // namespace edgemeta::EM_NAMESPACE
