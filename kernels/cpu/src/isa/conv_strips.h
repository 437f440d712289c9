// The rows of a convolution on ARM by strips: the accumulators of some tens of pixels by sixteen channels go to a
// buffer tile by tile, then they are requantized, added to the shortcut if there is one, and stored, all at once.
//
// Included after the header of a tile, which defines kPixels and run_tiles.
#pragma once

#include "finish_tile.h"
#include "lowbit/unpack.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kStrip = 36;  // pixels: 2 KB of accumulators
static_assert(kStrip % kPixels == 0);

// run[pixels - 1]: the tiles of 1 .. kPixels pixels.
template <int P, int... Larger>
struct Tiles : Tiles<P - 1, P, Larger...> {};
template <int... P>
struct Tiles<0, P...> {
  static constexpr RunTiles run[] = {run_tiles<P>...};
};

struct Strips {
  const Conv& conv;
  uint8_t* arena;

  // Some rows of one block; weights and starts: of that block.
  void run(int32_t first, int32_t last, int32_t block, const uint8_t* weights, const int8_t* starts = nullptr) const {
    const Window& window = conv.window;
    const int64_t step = window.stride_x * conv.in.pixel;
    const int32_t lowest_pairs = conv.lowest_pairs ? conv.lowest_pairs[block] : 0;
    alignas(64) int32_t sums[kStrip * kBlock];
    for (int32_t y = first; y < last; ++y)
      for (int32_t x = 0; x < conv.out.width; x += kStrip) {
        const int32_t pixels = smaller(kStrip, conv.out.width - x), whole = pixels / kPixels, rest = pixels % kPixels;
        const uint8_t* in = arena + conv.in.at(int64_t{y} * window.stride_y - window.top,
                                               int64_t{x} * window.stride_x - window.left);
        const TileInput input{reinterpret_cast<const int8_t*>(in), step, reinterpret_cast<const int8_t*>(weights),
                              conv.bias + block * kBlock, lowest_pairs, starts};
        if (whole > 0) Tiles<kPixels>::run[kPixels - 1](conv, input, whole, sums);
        if (rest > 0)
          Tiles<kPixels>::run[rest - 1](conv, input.from(whole * kPixels), 1, sums + whole * kPixels * kBlock);
        finish_block(conv, arena, y, x, block, pixels, sums);
      }
  }

  // So many that their input and output stay in the second cache, while the weights of a block are in the first.
  int32_t rows_at_once() const {
    constexpr int64_t kBytes = 48 * 1024;
    return static_cast<int32_t>(kBytes / (conv.in.row * conv.window.stride_y + conv.out.row)) + 1;
  }

  void by_block(int32_t first, int32_t last) const {
    const auto* weights = static_cast<const uint8_t*>(conv.weights);
    for (int32_t top = first; top < last; top += rows_at_once())
      for (int32_t block = 0; block < conv.out.blocks(); ++block)
        run(top, smaller(top + rows_at_once(), last), block, weights + block * conv.block_bytes);
  }

  // Packed weights are unpacked once for all rows.
  void by_packed_block(int32_t first, int32_t last, uint8_t* unpacked) const {
    for (int32_t block = 0; block < conv.out.blocks(); ++block) {
      unpack_blocks(conv, block, 1, unpacked);
      run(first, last, block, unpacked);
    }
  }
};

inline void run_rows(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  const Strips strips{conv, arena};
  conv.packed_bits > 0 ? strips.by_packed_block(first, last, scratch) : strips.by_block(first, last);
}

inline size_t rows_scratch(const Conv& conv) { return conv.packed_bits > 0 ? unpack_scratch(conv, 1) : 0; }

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
