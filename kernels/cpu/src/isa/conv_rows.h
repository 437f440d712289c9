// The rows of a convolution by tiles: accumulators of a few pixels and channels stay in registers during the whole
// window, then they are requantized, added to the shortcut if there is one, and stored.
//
// Included after the header of a tile, which defines kPixels, kBlocks, kBlockPixels, kColumnBlocks, kWidens,
// kStoresLines, tile_scratch_bytes, prepare_tile and run_tile.
#pragma once

#include "finish_tile.h"
#include "lowbit/unpack.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// run[pixels - 1]: the tiles of 1 .. kPixels pixels by N blocks; kBlockPixels of the only block.
template <int N, int P, int... Larger>
struct Tiles : Tiles<N, P - 1, P, Larger...> {};
template <int N, int... P>
struct Tiles<N, 0, P...> {
  static constexpr RunTile run[] = {run_tile<P, N>...};
};
template <int N>
using AllTiles = Tiles<N, N == 1 ? kBlockPixels : kPixels>;

// A convolution's rows by tiles.
struct Rows {
  const Conv& conv;
  uint8_t *arena, *scratch;
  int32_t tiles, least, wider;  // tiles of each row; `least` pixels or one more, as the first `wider` ones have
  uint8_t* unpacked;  // weights of some blocks

  Rows(const Conv& given, uint8_t* at, uint8_t* own)
      : conv(given),
        arena(at),
        scratch(own),
        tiles((given.out.width + most_pixels(given) - 1) / most_pixels(given)),
        least(given.out.width / tiles),
        wider(given.out.width % tiles),
        unpacked(own + tile_scratch_bytes(given)) {}

  static int32_t most_pixels(const Conv& conv) { return conv.out.blocks() == 1 ? kBlockPixels : kPixels; }

  // Calls use(x, pixels) for the tiles of a row.
  template <typename Use>
  INLINE void each_tile(Use use) const {
    for (int32_t tile = 0, x = 0, pixels; tile < tiles; ++tile, x += pixels) {
      pixels = least + (tile < wider);
      use(x, pixels);
    }
  }

  // Blocks of the tiles from `block` on.
  int32_t blocks_from(int32_t block) const {
    const int32_t left = conv.out.blocks() - block;
    if (conv.out.width == 1 && left >= kColumnBlocks) return kColumnBlocks;
    return smaller(kBlocks, left);
  }

  // Whether a tile requantizes and stores, too.
  bool stores(int32_t pixels, int32_t block, int32_t blocks) const {
    const Method* method = conv.requantize.method + block;
    return kStoresLines && pixels > 1 && !conv.has_sum && method[0] == method[blocks - 1] &&
           (method[0] == Method::line || method[0] == Method::rounded_line);
  }

  // What the tiles of some blocks have in common: `in` and `out` are still to be set. at: weights of `block`.
  INLINE TileInput tile_of(int32_t block, const uint8_t* at) const {
    const auto step = static_cast<int32_t>(conv.window.stride_x * conv.in.pixel);
    const HighDigit* high = conv.high + int64_t{block} * conv.high_digits;
    return {nullptr, step, at, conv.block_bytes, conv.bias + block * kBlock, high, scratch, block, nullptr};
  }

  INLINE void run(TileInput& tile, int32_t y, int32_t x, int32_t pixels, int32_t blocks, bool prepare) const {
    const Window& win = conv.window;
    tile.in = arena + conv.in.at(int64_t{y} * win.stride_y - win.top, int64_t{x} * win.stride_x - win.left);
    tile.out = stores(pixels, tile.block, blocks) ? arena + conv.out.at(y, x) + tile.block * kBlock : nullptr;
    if (prepare) prepare_tile(conv, tile, pixels);
    alignas(64) int32_t sums[kBlocks * kPixels * kBlock];  // no vector in two cache lines
    static_assert(kColumnBlocks <= kBlocks * kPixels);
    if (blocks > kBlocks)
      run_tile<1, kColumnBlocks>(conv, tile, sums);
    else if (blocks == kBlocks)
      AllTiles<kBlocks>::run[pixels - 1](conv, tile, sums);
    else
      AllTiles<1>::run[pixels - 1](conv, tile, sums);
    if (tile.out != nullptr) return;
    for (int32_t n = 0; n < blocks; ++n)
      finish_block(conv, arena, y, x, tile.block + n, pixels, sums + n * pixels * kBlock);
  }

  const uint8_t* weights(int32_t block) const {
    return static_cast<const uint8_t*>(conv.weights) + block * conv.block_bytes;
  }

  // Some blocks of a tile, then of the next tile: its input is prepared once. weights: of the first block.
  void by_tile(int32_t first, int32_t last, int32_t begin, int32_t end, const uint8_t* at) const {
    for (int32_t y = first; y < last; ++y)
      each_tile([&](int32_t x, int32_t pixels) INLINE {
        for (int32_t block = begin; block < end; block += kBlocks) {
          TileInput tile = tile_of(block, at + (block - begin) * conv.block_bytes);
          run(tile, y, x, pixels, smaller(kBlocks, end - block), block == begin);
        }
      });
  }

  // All tiles of some rows for the same blocks: their weights stay in the first cache.
  void by_block(int32_t first, int32_t last) const {
    for (int32_t top = first; top < last; top += rows_at_once())
      for (int32_t block = 0, blocks; block < conv.out.blocks(); block += blocks) {
        blocks = blocks_from(block);
        TileInput tile = tile_of(block, weights(block));
        for (int32_t y = top; y < smaller(top + rows_at_once(), last); ++y)
          each_tile([&](int32_t x, int32_t pixels) INLINE { run(tile, y, x, pixels, blocks, false); });
      }
  }

  // As by_block, for packed weights: those of some blocks are unpacked, once for all rows.
  void by_packed_block(int32_t first, int32_t last) const {
    const int32_t blocks = unpacked_blocks(conv);
    for (int32_t block = 0; block < conv.out.blocks(); block += blocks) {
      const int32_t end = smaller(block + blocks, conv.out.blocks());
      unpack_blocks(conv, block, end - block, unpacked);
      by_tile(first, last, block, end, unpacked);
    }
  }

  // So many that their input and output stay in the second cache.
  int32_t rows_at_once() const {
    constexpr int64_t kBytes = 48 * 1024;
    return static_cast<int32_t>(kBytes / (conv.in.row * conv.window.stride_y + conv.out.row)) + 1;
  }

  // Two blocks for the first cache; where tiles are prepared, so many as the second cache has room for.
  static int32_t unpacked_blocks(const Conv& conv) {
    constexpr int64_t kBytes = 192 * 1024;
    const auto fit = kWidens ? static_cast<int32_t>(kBytes / conv.block_bytes) : kBlocks;
    return smaller(greater(fit, kBlocks), conv.out.blocks());
  }
};

void run_rows(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  const Rows rows(conv, arena, scratch);
  if (conv.packed_bits > 0) return rows.by_packed_block(first, last);
  kWidens ? rows.by_tile(first, last, 0, conv.out.blocks(), rows.weights(0)) : rows.by_block(first, last);
}

size_t rows_scratch(const Conv& conv) {
  const size_t unpacked = conv.packed_bits > 0 ? unpack_scratch(conv, Rows::unpacked_blocks(conv)) : 0;
  return tile_scratch_bytes(conv) + unpacked;
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
