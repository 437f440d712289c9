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

}  // namespace

void colour_row(const Colour& colour, const uint8_t* pixels, int32_t width, uint8_t* out) {
  const bool in_place = colour.frame_channels == 3 && colour.channels == 3 && colour.flip >= 0 &&
                        colour.colours[0] < EM_GRAY && colour.colours[1] < EM_GRAY && colour.colours[2] < EM_GRAY;
  if (in_place) {
    const int32_t done = reorder(colour, pixels, width, out);
    pixels += 3 * done, out += 3 * done, width -= done;
  }
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
