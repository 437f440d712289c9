// Layers that copy elements to other places, and the bilinear resize.
#include "table.h"

namespace edgemeta::EM_NAMESPACE {

// Copies one input of a concatenation to its channels of the output.
void concat(const Copy& copy, uint8_t* arena, int32_t first, int32_t last) {
  for (int32_t y = first; y < last; ++y)
    for (int32_t x = 0; x < copy.in.width; ++x)
      memcpy(arena + copy.out.at(y, x) + copy.channel, arena + copy.in.at(y, x), static_cast<size_t>(copy.in.channels));
}

// Whole blocks where the input has them: what the last one holds after the last channel is never used.
void upsample(const Copy& copy, uint8_t* arena, int32_t first, int32_t last) {
  const int32_t bytes = copy.in.pixel % kBlock == 0 ? copy.in.blocks() * kBlock : 0;
  for (int32_t y = first; y < last; ++y) {
    const uint8_t* in = arena + copy.in.at(y / copy.factor_y, 0);
    uint8_t* out = arena + copy.out.at(y, 0);
    for (int32_t x = 0; x < copy.in.width; ++x, in += copy.in.pixel)
      for (int32_t i = 0; i < copy.factor_x; ++i, out += copy.out.pixel) {
        for (int32_t c = 0; c < bytes; c += kBlock) memcpy(out + c, in + c, kBlock);
        if (bytes == 0) memcpy(out, in, static_cast<size_t>(copy.in.channels));
      }
  }
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

void pad(const Pad& op, uint8_t* arena, int32_t first, int32_t last) {
  const auto bytes = static_cast<size_t>(op.in.channels);
  for (int32_t y = first; y < last; ++y) {
    // All of its pixels, since an earlier tensor may have used the memory.
    for (int32_t x = 0; x < op.out.width; ++x) memset(arena + op.out.at(y, x), op.out.zero, bytes);
    const int32_t below = y - op.top, from = below / op.spacing_y;
    if (below < 0 || below % op.spacing_y != 0 || from >= op.in.height) continue;
    for (int32_t x = 0; x < op.in.width; ++x)
      memcpy(arena + op.out.at(y, op.left + int64_t{x} * op.spacing_x), arena + op.in.at(from, x), bytes);
  }
}

void slice(const Slice& op, uint8_t* arena, int32_t first, int32_t last) {
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < op.out.width; ++x) {
      const int64_t from_y = op.top + int64_t{y} * op.step_y, from_x = op.left + int64_t{x} * op.step_x;
      const uint8_t* in = arena + op.in.at(from_y, from_x) + op.channel;
      uint8_t* out = arena + op.out.at(y, x);
      if (op.step_channel == 1)
        memcpy(out, in, static_cast<size_t>(op.out.channels));
      else
        for (int32_t c = 0; c < op.out.channels; ++c) out[c] = in[int64_t{c} * op.step_channel];
    }
  }
}

void shuffle(const Shuffle& op, uint8_t* arena, int32_t first, int32_t last) {
  const int32_t per_group = op.out.channels / op.groups;
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < op.out.width; ++x) {
      const uint8_t* in = arena + op.in.at(y, x);
      uint8_t* out = arena + op.out.at(y, x);
      for (int32_t i = 0; i < per_group; ++i)
        for (int32_t group = 0; group < op.groups; ++group) *out++ = in[group * per_group + i];
    }
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
