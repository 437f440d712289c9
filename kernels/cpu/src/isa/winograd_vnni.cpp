// Convolutions 3 x 3 of stride 1 by Winograd's tiles of four by four outputs with VNNI: 36 products of int16 for
// sixteen outputs of a channel instead of 144 of bytes, of which an instruction makes twice as many.
#include "table.h"

#if defined(EM_HAS_WINOGRAD_VNNI)
#include "finish_tile.h"
#include "winograd_tile_vnni.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

using Multiply = void (*)(const int16_t*, const int16_t*, int32_t, int, I32x16, int32_t*);
constexpr Multiply kMultiply[kJoint] = {multiply_column<1>, multiply_column<2>, multiply_column<3>,
                                        multiply_column<4>};

// The tiles of the rows first .. last - 1, row by row; some of them at a time.
struct Tiling {
  const Conv& conv;
  uint8_t* arena;
  int32_t first, last, columns, chunks;
  int16_t* points;  // [chunk][column][row][kTiles][16]
  int32_t* halves;  // [kTiles][4][6][16]

  Tiling(const Conv& given, uint8_t* at, int32_t from, int32_t to, uint8_t* scratch)
      : conv(given),
        arena(at),
        first(from),
        last(to),
        columns((given.out.width + kSide - 1) / kSide),
        chunks(given.in.blocks()),
        points(reinterpret_cast<int16_t*>(scratch)),
        halves(reinterpret_cast<int32_t*>(points + chunks * kChunkWords)) {}

  int32_t row_of(int32_t tile) const { return first + tile / columns * kSide; }

  // Rows below the last one that the convolution reads repeat it: they belong to outputs that are not stored.
  void load_tiles(int32_t begin, int32_t end) const {
    const int32_t bottom = conv.out.height + 1;
    for (int32_t tile = begin; tile < end; ++tile) {
      const int32_t y = row_of(tile), x = tile % columns * kSide;
      const uint8_t* rows[kIn];
      for (int i = 0; i < kIn; ++i)
        rows[i] = arena + conv.in.at(smaller(y + i, bottom) - conv.window.top, x - conv.window.left);
      int16_t* to = points + (tile - begin) * kTileWords;
      for (int32_t chunk = 0; chunk < chunks; ++chunk, to += kChunkWords) {
        transform_input(rows, conv.in.pixel, to);
        for (const uint8_t*& row : rows) row += kBlock;
      }
    }
  }

  // 36 times the bias is added to the point (1, 1), which each output has 16 times. The column 1, which reads all
  // weights, is the first.
  void multiply(int32_t tiles, int32_t block) const {
    const auto* weights = reinterpret_cast<const int16_t*>(static_cast<const uint8_t*>(conv.weights) +
                                                           block * conv.block_bytes);
    const I32x16 bias = load(conv.bias + block * kBlock) * splat(kScale / 16);
    for (int i = 1; i <= kIn; ++i)
      for (int32_t column = i % kIn, tile = 0; tile < tiles; tile += kJoint)
        kMultiply[smaller(kJoint, tiles - tile) - 1](points + column * kColumnWords + tile * kTileWords, weights,
                                                     chunks, column, column == 1 ? bias : splat(0),
                                                     halves + tile * kHalfTile + column * kBlock);
  }

  // Tiles of one row of tiles at a time.
  void finish(int32_t begin, int32_t end, int32_t block) const {
    alignas(64) int32_t sums[kTiles * kSide * kBlock];
    for (int32_t tile = begin, next; tile < end; tile = next) {
      const int32_t y = row_of(tile), x = tile % columns * kSide;
      next = smaller(tile - tile % columns + columns, end);
      const int32_t pixels = smaller((next - tile) * kSide, conv.out.width - x);
      for (int32_t row = 0; row < smaller(kSide, last - y); ++row) {
        const int32_t* from = halves + (tile - begin) * kHalfTile + row * kHalfRow;
        for (int32_t i = 0; i < next - tile; ++i) transform_row(row, from + i * kHalfTile, sums + i * kSide * kBlock);
        finish_block(conv, arena, y + row, x, block, pixels, sums);
      }
    }
  }

  void run() const {
    const int32_t tiles = (last - first + kSide - 1) / kSide * columns;
    for (int32_t begin = 0; begin < tiles; begin += kTiles) {
      const int32_t end = smaller(begin + kTiles, tiles);
      load_tiles(begin, end);
      for (int32_t block = 0; block < conv.out.blocks(); ++block) {
        multiply(end - begin, block);
        finish(begin, end, block);
      }
    }
  }
};

}  // namespace

void conv_winograd(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  Tiling(conv, arena, first, last, scratch).run();
}

size_t conv_winograd_scratch(const Conv& conv) {
  return size_t(conv.in.blocks()) * kChunkWords * sizeof(int16_t) + kTiles * kHalfTile * sizeof(int32_t);
}

}  // namespace edgemeta::EM_NAMESPACE
#endif
