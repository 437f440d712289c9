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

  // Whether rows lie one after the other in memory, as many pixels wide as the output's.
  bool is_joined(const View& view) const { return view.row == int64_t{conv.out.width} * view.pixel; }

  // Whether the pixels of some rows are read as those of one.
  bool joins_rows() const {
    const Window& window = conv.window;
    return window.height == 1 && window.width == 1 && window.stride_x == 1 && window.stride_y == 1 &&
           is_joined(conv.in);
  }

  const uint8_t* input_of(int32_t y, int32_t x) const {
    const Window& window = conv.window;
    return arena + conv.in.at(int64_t{y} * window.stride_y - window.top, int64_t{x} * window.stride_x - window.left);
  }

  // Some rows of one block; weights and starts: of that block; packed: the pixels of rows that are joined, or null.
  void run(int32_t first, int32_t last, int32_t block, const uint8_t* weights, const int8_t* starts = nullptr,
           const int8_t* packed = nullptr) const {
    const int64_t step = packed ? conv.span : conv.window.stride_x * conv.in.pixel;
    WindowOf window(conv, step);
    if (packed) window.reads = Reads::packed;
    const int32_t lowest_pairs = conv.lowest_pairs ? conv.lowest_pairs[block] : 0;
    const bool joins = joins_rows();
    const int32_t rows = joins ? last - first : 1, width = rows * conv.out.width;
    alignas(64) int32_t sums[kStrip * kBlock];
    for (int32_t y = first; y < last; y += rows)
      for (int32_t x = 0; x < width; x += kStrip) {
        const int32_t pixels = smaller(kStrip, width - x);
        const int32_t whole = (packed ? pixels + kPixels - 1 : pixels) / kPixels, rest = packed ? 0 : pixels % kPixels;
        const auto* in = packed ? packed + x * step : reinterpret_cast<const int8_t*>(input_of(y, x));
        const TileInput input{in, step, reinterpret_cast<const int8_t*>(weights), conv.bias + block * kBlock,
                              lowest_pairs, starts};
        if (whole > 0) Tiles<kPixels>::run[kPixels - 1](conv, window, input, whole, sums);
        if (rest > 0)
          Tiles<kPixels>::run[rest - 1](conv, window, input.from(whole * kPixels), 1, sums + whole * kPixels * kBlock);
        joins ? finish_joined(first, x, block, pixels, sums) : finish_block(conv, arena, y, x, block, pixels, sums);
      }
  }

  // Pixels from the x-th on of the row `first` and those after it.
  void finish_joined(int32_t first, int32_t x, int32_t block, int32_t pixels, const int32_t* sums) const {
    if (is_joined(conv.out) && (!conv.has_sum || is_joined(conv.other)))
      return finish_block(conv, arena, first, x, block, pixels, sums);
    int32_t row = first + x / conv.out.width, column = x % conv.out.width;
    while (pixels > 0) {
      const int32_t count = smaller(conv.out.width - column, pixels);
      finish_block(conv, arena, row++, column, block, count, sums);
      column = 0;
      pixels -= count;
      sums += count * kBlock;
    }
  }

  // So many that their input and output stay in the second cache, while the weights of a block are in the first.
  static int32_t rows_at_once(const Conv& conv) {
    constexpr int64_t kBytes = 48 * 1024;
    const auto rows = static_cast<int32_t>(kBytes / (conv.in.row * conv.window.stride_y + conv.out.row)) + 1;
    return smaller(rows, conv.out.height);
  }

  // Packing the pixels pays where several blocks read them.
  bool packs_pixels() const { return kPacksPixels && conv.out.blocks() > 2 && joins_rows(); }

  void by_block(int32_t first, int32_t last, uint8_t* scratch) const {
    const auto* weights = static_cast<const uint8_t*>(conv.weights);
    const int32_t rows = rows_at_once(conv);
    for (int32_t top = first; top < last; top += rows) {
      const int32_t bottom = smaller(top + rows, last);
      int8_t* packed = packs_pixels() ? reinterpret_cast<int8_t*>(scratch) : nullptr;
      if (packed)
        pack_pixels(reinterpret_cast<const int8_t*>(input_of(top, 0)), conv.in.pixel, conv.span,
                    ((bottom - top) * conv.out.width + kPixels - 1) / kPixels, packed);
      for (int32_t block = 0; block < conv.out.blocks(); ++block)
        run(top, bottom, block, weights + block * conv.block_bytes, nullptr, packed);
    }
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
  conv.packed_bits > 0 ? strips.by_packed_block(first, last, scratch) : strips.by_block(first, last, scratch);
}

inline size_t rows_scratch(const Conv& conv) {
  if (conv.packed_bits > 0) return unpack_scratch(conv, 1);
  if (!Strips{conv, nullptr}.packs_pixels()) return 0;
  return size_t(Strips::rows_at_once(conv) * conv.out.width + kPixels - 1) * conv.span;
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
