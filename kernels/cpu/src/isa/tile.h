// A tile: the accumulators of P pixels of one output row by N blocks of sixteen channels.
#pragma once

#include "../kernels.h"
#include "finish.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// Inputs of a tile. `in` is the window of its first pixel; that of the next pixel is `step` bytes further.
struct TileInput {
  const uint8_t* in;
  int32_t step;
  const uint8_t* weights;  // of its first block
  int64_t block_bytes;     // from one block's weights to the next
  const int32_t* bias;     // of its first block
  const HighDigit* high;   // of its first block
  uint8_t* scratch;
  int32_t block;  // its first
  uint8_t* out;   // where the first pixel's results go; null: the accumulators are wanted
};

// Writes the accumulators to sums[N][P][16], or where a tile has `out`, their results there.
using RunTile = void (*)(const Conv&, const TileInput&, int32_t* sums);

#if !defined(EM_ISA_NEON)

// Requantizes and stores where the accumulators lie in registers: a buffer between would cost a store and a load of
// each vector.
template <typename Line, int P, int N>
INLINE inline void store_lines(const Conv& conv, const TileInput& tile, I32x16 (&acc)[P][N]) {
  unrolled<N>([&](auto n) INLINE {
    const Line line(conv.requantize, tile.block + n.value);
    unrolled<P>([&](auto p) INLINE { acc[p.value][n.value] = line(acc[p.value][n.value]); });
  });
  const ByteRange range(conv.requantize.lo, conv.requantize.hi, conv.requantize.zero);
  const int64_t step = conv.out.pixel;
  const auto to = [&](int64_t p) INLINE { return tile.out + p * step; };
  constexpr int kTogether = N == 1 ? 4 : 2, kRest = P % kTogether;
  unrolled<P / kTogether>([&](auto group) INLINE {
    constexpr int p = group.value * kTogether;
    if constexpr (N == 1)
      store_bytes(to(p), step, acc[p][0], acc[p + 1][0], acc[p + 2][0], acc[p + 3][0], range);
    else
      store_blocks(to(p), step, acc[p], acc[p + 1], range);
  });
  unrolled<kRest * N>([&](auto i) INLINE {
    constexpr int p = P - kRest + i.value / N, n = i.value % N;
    store_bytes(to(p) + n * kBlock, acc[p][n], range);
  });
}

template <int P, int N>
INLINE inline void store_tile(const Conv& conv, const TileInput& tile, I32x16 (&acc)[P][N]) {
  if (conv.requantize.method[tile.block] == Method::line) return store_lines<ByLine>(conv, tile, acc);
  store_lines<ByRoundedLine>(conv, tile, acc);
}

#endif

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
