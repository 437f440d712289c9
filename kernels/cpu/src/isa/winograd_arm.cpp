// Convolutions 3 x 3 of stride 1 by Winograd's tiles. Of ARM only armv8.0 has the form: a dot product makes as many
// multiply-accumulates as sixteen-bit products save.
#include "table.h"

#if defined(EM_HAS_WINOGRAD_ARM)
#include "finish_tile.h"
#include "winograd_tile_arm.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

using Multiply = void (*)(const int16_t*, const int16_t*, int32_t, int32_t*);
constexpr Multiply kMultiply[kTiles] = {multiply<1>, multiply<2>, multiply<3>, multiply<4>};

// Some tiles side by side, four rows of their accumulators, and what is between.
struct Strip {
  const Conv& conv;
  const int32_t depth;  // input channels, padded
  uint8_t* arena;
  int32_t* products;  // [kTiles][point][16]
  int32_t* sums;      // [4][pixels][16]
  int16_t* points;    // [depth / 8][kTiles][point][8]

  Strip(const Conv& given, uint8_t* at, uint8_t* scratch)
      : conv(given),
        depth(given.in.blocks() * kBlock),
        arena(at),
        products(reinterpret_cast<int32_t*>(scratch)),
        sums(products + kTiles * kPoints * kBlock),
        points(reinterpret_cast<int16_t*>(sums + kTiles * kSide * kSide * kBlock)) {}

  // The tiles whose first output is (y, x). Rows below the last one that the convolution reads repeat it: they belong
  // to outputs that are not stored.
  void load(int32_t y, int32_t x, int32_t tiles) const {
    const Window& window = conv.window;
    const int32_t bottom = conv.out.height + 1;
    for (int32_t tile = 0; tile < tiles; ++tile) {
      const int8_t* rows[kIn];
      for (int i = 0; i < kIn; ++i)
        rows[i] = reinterpret_cast<const int8_t*>(
            arena + conv.in.at(smaller(y + i, bottom) - window.top, x + tile * kSide - window.left));
      int16_t* to = points + tile * kTileWords;
      for (int32_t channel = 0; channel < depth; channel += kBlock, to += 2 * kGroupWords) {
        transform_input(rows, conv.in.pixel, to, kGroupWords);
        for (const int8_t*& row : rows) row += kBlock;
      }
    }
  }

  void run(int32_t y, int32_t last, int32_t x, int32_t pixels) const {
    const int32_t tiles = (pixels + kSide - 1) / kSide;
    load(y, x, tiles);
    for (int32_t block = 0; block < conv.out.blocks(); ++block) {
      const auto* weights = static_cast<const int16_t*>(conv.weights) + int64_t{block} * kPoints * depth * kBlock;
      kMultiply[tiles - 1](points, weights, depth / 8, products);
      for (int32_t four = 0; four < kBlock; four += 4) {
        const int32x4_t bias = vmulq_n_s32(vld1q_s32(conv.bias + block * kBlock + four), kScale);
        for (int32_t tile = 0; tile < tiles; ++tile)
          transform_output(products + tile * kPoints * kBlock + four, bias, kTiles * kSide,
                           sums + tile * kSide * kBlock + four);
      }
      for (int32_t row = y; row < last; ++row)
        finish_block(conv, arena, row, x, block, pixels, sums + (row - y) * kTiles * kSide * kBlock);
    }
  }
};

}  // namespace

void conv_winograd(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  const Strip strip(conv, arena, scratch);
  const int32_t width = conv.out.width;
  for (int32_t y = first; y < last; y += kSide)
    for (int32_t x = 0; x < width; x += kTiles * kSide)
      strip.run(y, smaller(y + kSide, last), x, smaller(kTiles * kSide, width - x));
}

size_t conv_winograd_scratch(const Conv& conv) {
  const size_t words = kTiles * (kPoints + kSide * kSide) * kBlock;
  return words * sizeof(int32_t) + size_t(conv.in.blocks()) * 2 * kGroupWords * sizeof(int16_t);
}

}  // namespace edgemeta::EM_NAMESPACE
#endif
