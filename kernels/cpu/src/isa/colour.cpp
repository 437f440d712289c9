// From resized pixels to the integers of a tensor: order of channels, gray, alpha, table.
#include "../edgemeta_cpu.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

inline uint8_t gray_of(int32_t blue, int32_t green, int32_t red) {
  return static_cast<uint8_t>((1868 * blue + 9617 * green + 4899 * red + (1 << 13)) >> 14);
}

// kMixes: some channel is gray or alpha, which a pixel of the frame does not hold.
template <int kChannels, bool kMixes>
void look_up(const Colour& colour, const uint8_t* __restrict pixels, int32_t width, uint8_t* __restrict out) {
  const uint8_t* tables[kChannels];
  int32_t colours[kChannels];
  for (int c = 0; c < kChannels; ++c) {
    tables[c] = colour.table + 256 * c;
    colours[c] = colour.colours[c];
  }
  const int32_t step = colour.frame_channels;
  uint8_t mixed[EM_ALPHA + 1] = {};
  mixed[EM_ALPHA] = 255;
  for (int32_t x = 0; x < width; ++x, pixels += step, out += kChannels) {
    if constexpr (kMixes) {
      for (int32_t i = 0; i < step; ++i) mixed[i] = pixels[i];
      if (step == 3) mixed[EM_GRAY] = gray_of(pixels[0], pixels[1], pixels[2]);
    }
    const uint8_t* values = kMixes ? mixed : pixels;
    for (int c = 0; c < kChannels; ++c) out[c] = tables[c][values[colours[c]]];
  }
}

template <int kChannels>
void look_up(const Colour& colour, const uint8_t* pixels, int32_t width, uint8_t* out) {
  bool mixes = false;
  for (int c = 0; c < kChannels; ++c) mixes |= colour.colours[c] >= EM_GRAY;
  mixes ? look_up<kChannels, true>(colour, pixels, width, out) : look_up<kChannels, false>(colour, pixels, width, out);
}

// Three channels of blue, green and red in any order, where each table is p ^ flip; the pixels that are done. Vectors
// take five pixels: their last byte is the next pixel's, and is written again.
int32_t reorder(const Colour& colour, const uint8_t* pixels, int32_t width, uint8_t* out) {
#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)
  int8_t order[16] = {};
  for (int i = 0; i < 15; ++i) order[i] = static_cast<int8_t>(i / 3 * 3 + colour.colours[i % 3]);
  const __m128i from = _mm_loadu_si128(reinterpret_cast<const __m128i*>(order));
  const __m128i flip = _mm_set1_epi8(static_cast<char>(colour.flip));
  int32_t x = 0;
  for (; x + 6 <= width; x += 5) {
    const __m128i five = _mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + 3 * x));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + 3 * x), _mm_xor_si128(_mm_shuffle_epi8(five, from), flip));
  }
  return x;
#else
  (void)colour, (void)pixels, (void)width, (void)out;
  return 0;
#endif
}

// Blue, green and red to gray.
void make_gray(const uint8_t* pixels, int32_t width, uint8_t* gray) {
  int32_t x = 0;
#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)
  // Four pixels b g r -, as words; vpmaddwd adds blue to green, and red to nothing.
  const __m128i apart = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
  const __m256i weights = _mm256_set1_epi64x((int64_t{4899} << 32) | (9617 << 16) | 1868);
  const __m256i half = _mm256_set1_epi32(1 << 13);
  const __m256i gather = _mm256_setr_epi8(0, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
                                          0, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  for (; x + 6 <= width; x += 4) {
    const __m128i four = _mm_shuffle_epi8(_mm_loadu_si128(reinterpret_cast<const __m128i*>(pixels + 3 * x)), apart);
    const __m256i sums = _mm256_madd_epi16(_mm256_cvtepu8_epi16(four), weights);
    const __m256i total = _mm256_add_epi32(_mm256_add_epi32(sums, _mm256_srli_epi64(sums, 32)), half);
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_srli_epi32(total, 14), gather);
    const int32_t both = (_mm_cvtsi128_si32(_mm256_castsi256_si128(bytes)) & 0xffff) |
                         (_mm_cvtsi128_si32(_mm256_extracti128_si256(bytes, 1)) << 16);
    memcpy(gray + x, &both, sizeof both);
  }
#endif
  for (; x < width; ++x) gray[x] = gray_of(pixels[3 * x], pixels[3 * x + 1], pixels[3 * x + 2]);
}

// One channel of one value per pixel.
void one_channel(const Colour& colour, const uint8_t* __restrict values, int32_t width, uint8_t* __restrict out) {
  const auto flip = static_cast<uint8_t>(colour.flip);
  if (colour.flip >= 0)
    for (int32_t x = 0; x < width; ++x) out[x] = values[x] ^ flip;
  else
    for (int32_t x = 0; x < width; ++x) out[x] = colour.table[values[x]];
}

void gray_row(const Colour& colour, const uint8_t* pixels, int32_t width, uint8_t* out) {
  constexpr int32_t kPixels = 512;
  uint8_t gray[kPixels];
  for (int32_t x = 0; x < width; x += kPixels) {
    const int32_t count = width - x < kPixels ? width - x : kPixels;
    make_gray(pixels + 3 * x, count, gray);
    one_channel(colour, gray, count, out + x);
  }
}

}  // namespace

void colour_row(const Colour& colour, const uint8_t* pixels, int32_t width, uint8_t* out) {
  const int32_t *colours = colour.colours, frame_channels = colour.frame_channels;
  if (colour.channels == 1 && frame_channels == 1 && colours[0] == 0) return one_channel(colour, pixels, width, out);
  if (colour.channels == 1 && frame_channels == 3 && colours[0] == EM_GRAY) return gray_row(colour, pixels, width, out);
  const bool reorders = colour.channels == 3 && frame_channels == 3 && colour.flip >= 0 && colours[0] < EM_GRAY &&
                        colours[1] < EM_GRAY && colours[2] < EM_GRAY;
  const int32_t done = reorders ? reorder(colour, pixels, width, out) : 0;
  pixels += done * frame_channels, out += done * colour.channels, width -= done;
  switch (colour.channels) {
    case 1:
      return look_up<1>(colour, pixels, width, out);
    case 2:
      return look_up<2>(colour, pixels, width, out);
    case 3:
      return look_up<3>(colour, pixels, width, out);
    default:
      return look_up<4>(colour, pixels, width, out);
  }
}

}  // namespace edgemeta::EM_NAMESPACE
