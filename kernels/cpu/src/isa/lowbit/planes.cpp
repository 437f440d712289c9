// Convolution by bit planes: a sum of products of few bits is a sum of counts,
//
//   sum of w x = sum over planes i of the weights and j of the activations of factor(i) 2**j popcount(w_i AND x_j),
//
// with factor(i) = 2**i, and -2**(bits - 1) for the sign's plane. Weights that are sums of binary bases, c_b times -1
// or 1, have a plane for each base, 1 for 1, with the factor 2 c_b, and the sum of x times the sum of all c_b is
// subtracted. Activations begin at 0: their least integer is taken off. The window of a pixel becomes one string of
// bits for each plane, so its rows need no padding.
#if defined(EM_ISA_AVX512)
#pragma GCC target("avx512vpopcntdq")
#endif
#include "../finish_tile.h"
#include "bit_counts.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kMostPixels = 12;

// Bytes of the planes of a tile.
size_t plane_bytes(const Planes& op) {
  return static_cast<size_t>(op.words) * kMostPixels * op.input_planes * kCopies * 4;
}

// The bytes of the window at `in`, side by side.
void gather(const Conv& conv, const uint8_t* in, uint8_t* line) {
  for (int32_t ky = 0; ky < conv.window.height; ++ky)
    for (int32_t s = 0; s < conv.spans; ++s, line += conv.span)
      memcpy(line, in + ky * conv.tap_row + int64_t{s} * conv.span_step, static_cast<size_t>(conv.span));
}

// The planes of the windows of `pixels` pixels: planes[word][pixel][plane][kCopies], so that the kernel finds all that
// it reads for a word at fixed distances.
void cut_windows(const Planes& op, const uint8_t* in, int32_t pixels, uint8_t* line, uint32_t* planes) {
  const int32_t of_pixel = op.input_planes * kCopies, of_word = pixels * of_pixel;
  for (int32_t p = 0; p < pixels; ++p, in += op.conv.window.stride_x * op.conv.in.pixel, planes += of_pixel) {
    gather(op.conv, in, line);
    for (int32_t word = 0; word < op.words; word += kCut / 32)
      cut(line + word * 32, op.conv.low, op.input_planes, planes + int64_t{word} * of_word, of_word);
  }
}

// The sum of the activations of each pixel that have weights.
void sum_inputs(const Planes& op, const uint32_t* planes, int32_t pixels, int32_t* of_pixels) {
  for (int32_t p = 0; p < pixels; ++p) of_pixels[p] = 0;
  for (int32_t word = 0; word < op.words; ++word)
    for (int32_t p = 0; p < pixels; ++p)
      for (int32_t j = 0; j < op.input_planes; ++j, planes += kCopies)
        of_pixels[p] += __builtin_popcount(*planes & op.present[word]) << j;
}

// The sums of P pixels and one block of channels, to sums[P][16]. of_pixels: as sum_inputs, for weights as bases.
template <int A, int P>
void count_tile(const Planes& op, const uint32_t* planes, const int32_t* of_pixels, int32_t block, int32_t* sums) {
  const auto* weights = static_cast<const uint32_t*>(op.conv.weights) +
                        int64_t{block} * op.weight_planes * op.words * kBlock;
  const I32x16 bias = load(op.conv.bias + block * kBlock);
  for (int p = 0; p < P; ++p)
    store(sums + p * kBlock, op.present ? bias + load(op.of_sum + block * kBlock) * splat(of_pixels[p]) : bias);
  for (int32_t i = 0; i < op.weight_planes; ++i) {
    const I32x16 factor = load(op.factors + (int64_t{block} * op.weight_planes + i) * kBlock);
    for (int32_t first = 0; first < op.words; first += op.most_words) {
      const int32_t last = smaller(op.words, first + op.most_words);
      Counts counts[P * A];
      for (int32_t word = first; word < last; ++word, weights += kBlock) {
        const Weights w(weights);
        const uint32_t* x = planes + int64_t{word} * P * A * kCopies;
        unrolled<P * A>([&](auto n) INLINE { counts[n.value].add(w, x + n.value * kCopies); });
      }
      unrolled<P>([&](auto p) INLINE {
        I32x16 total = counts[p.value * A + A - 1].total();
        unrolled<A - 1>([&](auto j) INLINE { total = total + total + counts[p.value * A + A - 2 - j.value].total(); });
        int32_t* sum = sums + p.value * kBlock;
        store(sum, load(sum) + total * factor);
      });
    }
  }
}

using CountTile = void (*)(const Planes&, const uint32_t* planes, const int32_t* of_pixels, int32_t block,
                           int32_t* sums);

// run[pixels - 1]: the tiles of 1 .. P pixels by one block.
template <int A, int P, int... Larger>
struct Tiles : Tiles<A, P - 1, P, Larger...> {};
template <int A, int... P>
struct Tiles<A, 0, P...> {
  static constexpr CountTile run[] = {count_tile<A, P>...};
};

template <int A>
void run_planes(const Planes& op, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  constexpr int kFit = kPlaneSums / A > 0 ? kPlaneSums / A : 1, kPixels = kFit < kMostPixels ? kFit : kMostPixels;
  const Conv& conv = op.conv;
  auto* planes = reinterpret_cast<uint32_t*>(scratch);
  uint8_t* line = scratch + plane_bytes(op);
  const int32_t tiles = (conv.out.width + kPixels - 1) / kPixels;
  for (int32_t y = first; y < last; ++y)
    for (int32_t tile = 0; tile < tiles; ++tile) {
      const auto x = static_cast<int32_t>(int64_t{conv.out.width} * tile / tiles);
      const int32_t pixels = static_cast<int32_t>(int64_t{conv.out.width} * (tile + 1) / tiles) - x;
      const int64_t row = int64_t{y} * conv.window.stride_y - conv.window.top;
      const int64_t column = int64_t{x} * conv.window.stride_x - conv.window.left;
      cut_windows(op, arena + conv.in.at(row, column), pixels, line, planes);
      int32_t of_pixels[kPixels];
      if (op.present) sum_inputs(op, planes, pixels, of_pixels);
      alignas(64) int32_t sums[kPixels * kBlock];
      for (int32_t block = 0; block < conv.out.blocks(); ++block) {
        Tiles<A, kPixels>::run[pixels - 1](op, planes, of_pixels, block, sums);
        finish_block(conv, arena, y, x, block, pixels, sums);
      }
    }
}

void conv_planes(const Planes& op, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  constexpr void (*run[])(const Planes&, uint8_t*, int32_t, int32_t, uint8_t*) = {run_planes<1>, run_planes<2>,
                                                                                  run_planes<3>, run_planes<4>};
  run[op.input_planes - 1](op, arena, first, last, scratch);
}

size_t conv_planes_scratch(const Planes& op) {
  return plane_bytes(op) + static_cast<size_t>(op.words) * 32;
}

bool can_count_bits() {
#if defined(EM_ISA_AVX512)
  return __builtin_cpu_supports("avx512vpopcntdq");
#else
  return true;
#endif
}

}  // namespace

extern const LowBitKernels low_bit = {
#if defined(EM_ISA_AVX512)
    {8.0, 1.9, 1.8, 0.0, 0.0, 0.0, 10.0, 2.7, 0.0, 0.0},
    true,
#elif defined(EM_ISA_AVXVNNI)
    {16.0, 7.4, 3.6, 0.0, 0.0, 0.0, 15.5, 5.0, 0.0, 0.0},
    true,
#elif defined(EM_ISA_AVX2)
    {32.0, 6.8, 1.2, 17.0, 22.0, 50.0, 40.0, 4.0, 0.0, 0.0},
    false,
// On ARM: instructions. Where there are dot products, counted by hand without loads; else those of the compiled loops,
// with unpacking as qemu counts it. bytes_start is what a tile of narrow sums takes more than a plain one.
#elif defined(EM_ISA_I8MM)
    {16.0, 12.0, 9.0, 0.0, 0.0, 0.0, 70.0, 4.0, 0.0, 0.0},
    false,
#elif defined(EM_ISA_DOTPROD)
    {32.0, 12.0, 9.0, 0.0, 0.0, 0.0, 70.0, 4.0, 0.0, 0.0},
    false,
#elif defined(EM_ISA_NEON)
#if defined(__aarch64__)
    {114.0, 16.5, 9.0, 73.5, 131.0, 25.0, 150.0, 4.0, 41.5, 80.0},
#else
    {165.0, 29.0, 14.0, 84.0, 200.0, 100.0, 600.0, 4.0, 52.0, 100.0},
#endif
    false,
#else
    {384.0, 10.5, 10.0, 0.0, 0.0, 0.0, 25.0, 4.0, 0.0, 0.0},
    false,
#endif
    can_count_bits,
    conv_planes,
    conv_planes_scratch,
    kMostWords,
#if defined(EM_ISA_AVX2) && !defined(EM_ISA_AVXVNNI)
    {4, 16, false},
    conv_bytes,
    conv_bytes_scratch,
#elif defined(EM_HAS_BYTES_ARM)
    {16, kNarrowOutputs, true},
    conv_bytes,
    conv_bytes_scratch,
#else
    {},
    nullptr,
    nullptr,
#endif
    quantize,
    dequantize,
};

}  // namespace edgemeta::EM_NAMESPACE
