// Convolution with vector multiply-adds: int8 by fours (AVX-512 VNNI) or int16 by pairs (AVX2).
//
// A tile holds the accumulators of P pixels of one output row by N blocks of 16 channels in registers. Each step takes
// the next input bytes of every pixel, spread over a vector, times the weights of 16 channels.
#include "finish.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)

template <int P, int N>
struct Accumulators {
  I32x16 lane[P][N];
};

#if defined(EM_ISA_AVX512)

constexpr int kWidePixels = 16, kPairPixels = 8;
constexpr int32_t kWeightBytes = 1;

// acc[p][n] += sum over the window of in * weights. `in` points at the window of pixel 0; pixels lie `step` bytes apart.
template <int P, int N, int STEP>
inline void accumulate(const Conv& conv, const uint8_t* in, int64_t in_row, int32_t step, const uint8_t* weights,
                       int64_t block_bytes, Accumulators<P, N>& acc) {
  const int32_t apart = STEP > 0 ? STEP : step;
  for (int32_t ky = 0; ky < conv.window.height; ++ky) {
    for (int32_t s = 0; s < conv.spans; ++s) {
      const uint8_t* at = in + ky * in_row + int64_t{s} * conv.span_step;
      for (int32_t d = 0; d < conv.span; d += 4, weights += 64) {
        __m512i w[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n) w[n] = _mm512_loadu_si512(weights + n * block_bytes);
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) {
          int32_t four;
          memcpy(&four, at + int64_t{p} * apart + d, 4);
          const __m512i x = _mm512_set1_epi32(four);
#pragma GCC unroll 4
          for (int n = 0; n < N; ++n) acc.lane[p][n].v = _mm512_dpbusd_epi32(acc.lane[p][n].v, x, w[n]);
        }
      }
    }
  }
}

size_t scratch_bytes(const Conv&) { return 0; }

template <int P, int N>
inline void accumulate_tile(const Conv& conv, const uint8_t* in, int64_t in_row, const uint8_t* weights,
                            int64_t block_bytes, uint8_t*, bool, Accumulators<P, N>& acc) {
  const int32_t step = conv.window.stride_x * conv.in.pixel;
  if (P >= 8) {  // the usual distances, as constants: the addresses then need no registers
    switch (step) {
      case 4:
        return accumulate<P, N, 4>(conv, in, in_row, step, weights, block_bytes, acc);
      case 16:
        return accumulate<P, N, 16>(conv, in, in_row, step, weights, block_bytes, acc);
      case 32:
        return accumulate<P, N, 32>(conv, in, in_row, step, weights, block_bytes, acc);
      case 64:
        return accumulate<P, N, 64>(conv, in, in_row, step, weights, block_bytes, acc);
      case 128:
        return accumulate<P, N, 128>(conv, in, in_row, step, weights, block_bytes, acc);
    }
  }
  accumulate<P, N, 0>(conv, in, in_row, step, weights, block_bytes, acc);
}

#else

constexpr int kWidePixels = 4, kPairPixels = 4;  // 8 registers of accumulators; a pair of blocks is no gain here
constexpr int32_t kWeightBytes = 2;

// Bytes of one kernel row under a tile of P pixels.
inline int64_t patch_row(const Conv& conv, int32_t pixels) {
  return int64_t{pixels - 1} * conv.window.stride_x * conv.in.pixel + int64_t{conv.spans - 1} * conv.span_step + conv.span;
}

size_t scratch_bytes(const Conv& conv) {
  return static_cast<size_t>(conv.window.height * (patch_row(conv, kWidePixels) + 16) * 2);
}

// Widen the input under a tile to int16, row after row, so that one 32-bit load spreads two channels.
inline void widen(const Conv& conv, int32_t pixels, const uint8_t* in, int64_t in_row, int16_t* patch) {
  const int64_t bytes = patch_row(conv, pixels);
  for (int32_t ky = 0; ky < conv.window.height; ++ky, in += in_row) {
    int64_t i = 0;
    for (; i + 16 <= bytes; i += 16) {
      const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(patch + i), _mm256_cvtepu8_epi16(b));
    }
    for (; i < bytes; ++i) patch[i] = in[i];
    patch += bytes;
  }
}

template <int P, int N>
inline void accumulate_tile(const Conv& conv, const uint8_t* in, int64_t in_row, const uint8_t* weights,
                            int64_t block_bytes, uint8_t* scratch, bool first_blocks, Accumulators<P, N>& acc) {
  int16_t* patch = reinterpret_cast<int16_t*>(scratch);
  if (first_blocks) widen(conv, P, in, in_row, patch);
  const int64_t row = patch_row(conv, P), step = int64_t{conv.window.stride_x} * conv.in.pixel;
  for (int32_t ky = 0; ky < conv.window.height; ++ky) {
    for (int32_t s = 0; s < conv.spans; ++s) {
      const int16_t* at = patch + ky * row + int64_t{s} * conv.span_step;
      for (int32_t d = 0; d < conv.span; d += 2, weights += 64) {
        for (int n = 0; n < N; ++n) {
          const __m256i wa = load8(weights + n * block_bytes), wb = load8(weights + n * block_bytes + 32);
#pragma GCC unroll 8
          for (int p = 0; p < P; ++p) {
            int32_t pair;
            memcpy(&pair, at + p * step + d, 4);
            const __m256i x = _mm256_set1_epi32(pair);
            acc.lane[p][n].a = _mm256_add_epi32(acc.lane[p][n].a, _mm256_madd_epi16(x, wa));
            acc.lane[p][n].b = _mm256_add_epi32(acc.lane[p][n].b, _mm256_madd_epi16(x, wb));
          }
        }
      }
    }
  }
}

#endif

// Outputs of P pixels from (y, x) on, N blocks from `block` on.
template <int P, int N>
void run_tile(const Conv& conv, uint8_t* arena, int32_t y, int32_t x, int32_t block, uint8_t* scratch) {
  const Window& win = conv.window;
  const int64_t block_bytes = int64_t{win.height} * conv.spans * conv.span * kBlock * kWeightBytes;
  const uint8_t* in = arena + conv.in.at(int64_t{y} * win.stride_y - win.top, int64_t{x} * win.stride_x - win.left);
  const uint8_t* weights = static_cast<const uint8_t*>(conv.weights) + block * block_bytes;
  Accumulators<P, N> acc;
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p)
#pragma GCC unroll 4
    for (int n = 0; n < N; ++n) acc.lane[p][n] = load(conv.bias + (block + n) * kBlock);
  accumulate_tile<P, N>(conv, in, conv.in.row, weights, block_bytes, scratch, block == 0, acc);
  uint8_t* out = arena + conv.out.at(y, x);
#pragma GCC unroll 4
  for (int n = 0; n < N; ++n) {
    const int32_t b = block + n;
    if (conv.requantize.method[b] == Method::raw) {
      for (int p = 0; p < P; ++p) finish_one(conv.requantize, b, acc.lane[p][n], out + p * int64_t{conv.out.pixel} + b * 64);
      continue;
    }
    const uint8_t* other = arena + conv.other.at(y, x) + b * kBlock;
    with_method(conv.requantize, b, [&](auto finish) {
#pragma GCC unroll 16
      for (int p = 0; p < P; ++p) {
        I32x16 result = finish(acc.lane[p][n]);
        if (conv.has_sum) result = weighted_sum(conv.sum, result, load_bytes(other + p * int64_t{conv.other.pixel}));
        store_bytes(out + p * int64_t{conv.out.pixel} + b * kBlock, result);
      }
    });
  }
}

template <int P>
void run_pixels(const Conv& conv, uint8_t* arena, int32_t y, int32_t x, uint8_t* scratch) {
  const int32_t blocks = conv.out.blocks();
  int32_t block = 0;
  if constexpr (P <= kPairPixels)
    for (; block + 2 <= blocks; block += 2) run_tile<P, 2>(conv, arena, y, x, block, scratch);
  for (; block < blocks; ++block) run_tile<P, 1>(conv, arena, y, x, block, scratch);
}

void run_row(const Conv& conv, uint8_t* arena, int32_t y, uint8_t* scratch) {
  const int32_t width = conv.out.width;
  int32_t x = 0;
  const bool pairs = conv.out.blocks() >= 2;
  if (kWidePixels > kPairPixels && !pairs)
    for (; x + kWidePixels <= width; x += kWidePixels) run_pixels<kWidePixels>(conv, arena, y, x, scratch);
  for (; x + kPairPixels <= width; x += kPairPixels) run_pixels<kPairPixels>(conv, arena, y, x, scratch);
  if constexpr (kPairPixels > 4)
    for (; x + 4 <= width; x += 4) run_pixels<4>(conv, arena, y, x, scratch);
  for (; x + 2 <= width; x += 2) run_pixels<2>(conv, arena, y, x, scratch);
  for (; x < width; ++x) run_pixels<1>(conv, arena, y, x, scratch);
}

#endif

}  // namespace

#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)

void conv(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  for (int32_t y = first; y < last; ++y) run_row(conv, arena, y, scratch);
}

size_t conv_scratch(const Conv& conv) { return scratch_bytes(conv); }

#endif

void generic_conv(const GenericConv& conv, uint8_t* arena, int32_t first, int32_t last) {
  const Window& win = conv.window;
  const int64_t run_weights = int64_t{win.height} * win.width * conv.depth * kBlock;
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < conv.out.width; ++x) {
      for (int32_t r = 0; r < conv.run_count; ++r) {
        const Run& run = conv.runs[r];
        const int32_t* weights = conv.weights + r * run_weights;
        I32x16 acc = load(conv.bias + r * kBlock);
        for (int32_t ky = 0; ky < win.height; ++ky) {
          for (int32_t kx = 0; kx < win.width; ++kx) {
            const uint8_t* in = arena + conv.in.at(int64_t{y} * win.stride_y - win.top + ky,
                                                   int64_t{x} * win.stride_x - win.left + kx) + run.input_channel;
            for (int32_t i = 0; i < conv.depth; ++i, weights += kBlock) acc = acc + load(weights) * splat(in[i]);
          }
        }
        uint8_t finished[4 * kBlock];
        finish_one(conv.requantize, r, acc, finished);
        const int32_t bytes = conv.requantize.method[r] == Method::raw ? 4 : 1;
        uint8_t* out = arena + conv.out.at(y, x);
        memcpy(out + int64_t{run.output_channel} * bytes, finished, static_cast<size_t>(run.count) * bytes);
      }
    }
  }
}

}  // namespace edgemeta::EM_NAMESPACE
