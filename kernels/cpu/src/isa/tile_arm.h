// Tiles of ARM's instruction sets: the accumulators of P pixels of one output row by sixteen channels.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// Inputs of tiles. `in` is the window of the first pixel; that of the next pixel is `step` bytes further.
struct TileInput {
  const int8_t* in;
  int64_t step;
  const int8_t* weights;
  const int32_t* bias;
  int32_t lowest_pairs;  // of the block, see Conv
  const int8_t* starts;  // of narrow sums (lowbit/tile_bytes_arm.h)

  TileInput from(int32_t pixel) const { return {in + pixel * step, step, weights, bias, lowest_pairs, starts}; }
};

struct Weights {
  int8x16_t val[4];
};

#if defined(__aarch64__)
// The next 64 weights. The registers are fixed, as GCC 12 moves others about to find four that follow each other.
INLINE inline Weights load_next(const int8_t*& weights) {
  register int8x16_t a asm("v28"), b asm("v29"), c asm("v30"), d asm("v31");
  asm("ld1 {%0.16b, %1.16b, %2.16b, %3.16b}, [%4], #64"
      : "=w"(a), "=w"(b), "=w"(c), "=w"(d), "+r"(weights)
      : "m"(*reinterpret_cast<const int8_t(*)[64]>(weights)));
  return {{a, b, c, d}};
}
#else
// One instruction loads 32, which GCC 12 has no name for.
INLINE inline Weights load_next(const int8_t*& weights) {
  const auto load_two = [&]() INLINE {
    int8x16x2_t two;
    asm("vld1.8 %h0, [%1]!"
        : "=w"(two), "+r"(weights)
        : "m"(*reinterpret_cast<const int8_t(*)[32]>(weights)));
    return two;
  };
  const int8x16x2_t a = load_two(), b = load_two();
  return {{a.val[0], a.val[1], b.val[0], b.val[1]}};
}
#endif

// The sums of the lanes of each register.
INLINE inline int32x4_t sums_of(int32x4_t a, int32x4_t b, int32x4_t c, int32x4_t d) {
#if defined(__aarch64__)
  return vpaddq_s32(vpaddq_s32(a, b), vpaddq_s32(c, d));
#else
  const auto halves = [](int32x4_t x) { return vadd_s32(vget_low_s32(x), vget_high_s32(x)); };
  return vcombine_s32(vpadd_s32(halves(a), halves(b)), vpadd_s32(halves(c), halves(d)));
#endif
}

// How the bytes of a window are read: run by run; the only run, also packed tile by tile as its registers are (i8mm);
// three taps of a row together, which are as far from each other as the pixels of a tile.
enum class Reads { runs, one_run, packed, three_taps };

// The bytes of a window. The sizes are in locals, since the compiler could not know that stores leave the arguments as
// they are; steps move the address of the weights on, which an instruction does that loads them.
struct WindowOf {
  int64_t span_step, row_step;
  int32_t spans, height, span;
  Reads reads;

  INLINE WindowOf(const Conv& conv, int64_t step)
      : span_step(conv.span_step),
        row_step(conv.tap_row),
        spans(conv.spans),
        height(conv.window.height),
        span(conv.span),
        reads(height == 1 && spans == 1 ? Reads::one_run
              : conv.window.width == 3 && span_step == step && span_step % 16 == 0 &&
                      (spans == 3 || span == 3 * span_step)
                  ? Reads::three_taps
                  : Reads::runs) {}

  // Calls step(inputs, weights) for each sixteen input bytes, with their weights by sixteen channels.
  template <Reads kReads = Reads::runs, typename Step>
  INLINE void each(const int8_t* row, const int8_t* weights, const Step& step) const {
    if constexpr (kReads == Reads::one_run || kReads == Reads::packed) {
      constexpr int kBytes = kReads == Reads::packed ? 64 : 16;  // four pixels, or one
      const int8_t* end = row + span * (kBytes / 16);
      do step(row, weights);
      while ((row += kBytes) < end);
      return;
    }
    int32_t ky = height;
    do {
      const int8_t* run = row;
      int32_t s = spans;
      do {
        const int8_t *in = run, *end = run + span;
        do step(in, weights);
        while ((in += 16) < end);
        run += span_step;
      } while (--s > 0);
      row += row_step;
    } while (--ky > 0);
  }

  // Where taps are shared, calls step(inputs, weights[3]) for sixteen channels of the first tap of each row.
  template <typename Step>
  INLINE void each_three(const int8_t* row, const int8_t* weights, const Step& step) const {
    const int32_t depth = spans == 3 ? span : static_cast<int32_t>(span_step);
    const int64_t tap = int64_t{depth} * kBlock;
    int32_t ky = height;
    do {
      const int8_t *in = row, *end = row + depth, *of_tap[3] = {weights, weights + tap, weights + 2 * tap};
      do step(in, of_tap);
      while ((in += 16) < end);
      weights = of_tap[2];
      row += row_step;
    } while (--ky > 0);
  }
};

// Writes the accumulators of `tiles` neighbouring tiles to sums[tiles][P][16].
using RunTiles = void (*)(const Conv&, const WindowOf&, const TileInput&, int32_t tiles, int32_t* sums);

#if defined(EM_ISA_I8MM)
constexpr bool kPacksPixels = true;
#else
constexpr bool kPacksPixels = false;
inline void pack_pixels(const int8_t*, int64_t, int32_t, int32_t, int8_t*) {}
#endif

#if defined(EM_ISA_DOTPROD) || defined(EM_ISA_I8MM)
// Sixteen sums by pairs of registers: GCC 12 would load and store them one by one, or copy what it has loaded before.
INLINE inline void load_sums(const int32_t* from, int32x4_t* to) {
  const auto& all = *reinterpret_cast<const int32_t(*)[kBlock]>(from);
  asm("ldp %q0, %q1, [%4]\n\tldp %q2, %q3, [%4, 32]"
      : "=&w"(to[0]), "=&w"(to[1]), "=w"(to[2]), "=w"(to[3])
      : "r"(from), "m"(all));
}
template <int kPixel>
INLINE inline void store_sums(int32_t* to, const int32x4_t* sums) {
  auto& all = *reinterpret_cast<int32_t(*)[kBlock]>(to + kPixel * kBlock);
  asm("stp %q1, %q2, [%5, %c6]\n\tstp %q3, %q4, [%5, %c6 + 32]"
      : "=m"(all)
      : "w"(sums[0]), "w"(sums[1]), "w"(sums[2]), "w"(sums[3]), "r"(to), "i"(kPixel * kBlock * 4));
}

// One function for each way of reading: with several in one, registers would move where they meet.
template <int P, Reads kReads>
void run_window(const WindowOf&, const TileInput&, int32_t tiles, int32_t* sums);

template <int P>
void run_tiles(const Conv&, const WindowOf& window, const TileInput& input, int32_t tiles, int32_t* sums) {
  switch (window.reads) {
    case Reads::runs:
      return run_window<P, Reads::runs>(window, input, tiles, sums);
    case Reads::one_run:
      return run_window<P, Reads::one_run>(window, input, tiles, sums);
    case Reads::packed:
      return run_window<P, kPacksPixels ? Reads::packed : Reads::one_run>(window, input, tiles, sums);
    case Reads::three_taps:
      return run_window<P, Reads::three_taps>(window, input, tiles, sums);
  }
}
#endif

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
