// Convolution by tiles: accumulators of a few pixels and channels stay in registers during the whole window, then they
// are requantized, added to the shortcut if there is one, and stored.
//
// A tile leaves its accumulators in a buffer of less than 2 KB: stores need no unit that multiplies, and so what
// follows exists once for all sizes of tiles.
#include <utility>

#include "finish.h"
#include "table.h"

#if defined(EM_ISA_AVX512)
#include "tile_avx512.h"
#elif defined(EM_ISA_AVX2)
#include "tile_avx2.h"
#elif defined(EM_ISA_I8MM)
#include "tile_i8mm.h"
#elif defined(EM_ISA_DOTPROD)
#include "tile_dotprod.h"
#elif defined(EM_ISA_NEON)
#include "tile_neon.h"
#else
#include "tile_portable.h"
#endif

namespace edgemeta::EM_NAMESPACE {
namespace {

// Store result(sums of pixel p) for all pixels, four at a time if possible.
template <typename Result>
INLINE inline void store_pixels(uint8_t* to, int64_t step, int32_t pixels, const int32_t* sums, const Result& result) {
  int32_t p = 0;
  for (; p + 4 <= pixels; p += 4, sums += 4 * kBlock)
    store_bytes(to + p * step, step, result(load(sums), p), result(load(sums + kBlock), p + 1),
                result(load(sums + 2 * kBlock), p + 2), result(load(sums + 3 * kBlock), p + 3));
  for (; p < pixels; ++p, sums += kBlock) store_bytes(to + p * step, result(load(sums), p));
}

// Requantize and store one block of a tile whose first pixel is (y, x).
void finish_block(const Conv& conv, uint8_t* arena, int32_t y, int32_t x, int32_t block, int32_t pixels,
                  const int32_t* sums) {
  uint8_t* out = arena + conv.out.at(y, x);
  const int64_t step = conv.out.pixel;
  if (conv.requantize.method[block] == Method::raw) {
    for (int32_t p = 0; p < pixels; ++p)
      memcpy(out + p * step + block * kBlock * 4, sums + p * kBlock, kBlock * sizeof(int32_t));
    return;
  }
  uint8_t* to = out + block * kBlock;
  if (!conv.has_sum) {
    with_method(conv.requantize, block, true, [&](const auto& finish) INLINE {
      store_pixels(to, step, pixels, sums, [&](const I32x16& acc, int32_t) INLINE { return finish(acc); });
    });
    return;
  }
  const Sum sum = conv.sum;  // a copy: bytes that are stored could be those of the original
  const uint8_t* other = arena + conv.other.at(y, x) + block * kBlock;
  const int64_t other_step = conv.other.pixel;
  with_method(conv.requantize, block, false, [&](const auto& finish) INLINE {
    store_pixels(to, step, pixels, sums, [&](const I32x16& acc, int32_t p) INLINE {
      return weighted_sum(sum, finish(acc), load_bytes(other + p * other_step));
    });
  });
}

// The tiles of 1 .. kPixels pixels by N blocks.
template <int N, typename Sizes = std::make_integer_sequence<int, kPixels>>
struct AllTiles;
template <int N, int... P>
struct AllTiles<N, std::integer_sequence<int, P...>> {
  static constexpr RunTile run[] = {run_tile<P + 1, N>...};
};

// A convolution's rows by tiles.
struct Rows {
  const Conv& conv;
  uint8_t *arena, *scratch;
  int32_t tiles;  // of each row, of nearly equal sizes
  int64_t block_bytes;

  Rows(const Conv& given, uint8_t* at, uint8_t* own)
      : conv(given),
        arena(at),
        scratch(own),
        tiles((given.out.width + kPixels - 1) / kPixels),
        block_bytes(int64_t{given.window.height} * given.spans * given.span * kBlock * kernels.weight_bytes) {}

  int32_t start(int32_t tile) const {
    return static_cast<int32_t>(int64_t{conv.out.width} * tile / tiles);
  }

  // Blocks of the tiles from `block` on.
  int32_t blocks_from(int32_t block) const {
    const int32_t left = conv.out.blocks() - block;
    if (conv.out.width == 1 && left >= kColumnBlocks) return kColumnBlocks;
    return smaller(kBlocks, left);
  }

  INLINE inline void run(int32_t y, int32_t tile, int32_t block, int32_t blocks, bool prepare) const {
    const Window& win = conv.window;
    const int32_t x = start(tile), pixels = start(tile + 1) - x;
    const TileInput input = {
        arena + conv.in.at(int64_t{y} * win.stride_y - win.top, int64_t{x} * win.stride_x - win.left),
        win.stride_x * conv.in.pixel,
        static_cast<const uint8_t*>(conv.weights) + block * block_bytes,
        block_bytes,
        conv.bias + block * kBlock,
        scratch,
    };
    if (prepare) prepare_tile(conv, input, pixels);
    alignas(64) int32_t sums[kBlocks * kPixels * kBlock];  // no vector in two cache lines
    static_assert(kColumnBlocks <= kBlocks * kPixels);
    if (blocks > kBlocks)
      run_tile<1, kColumnBlocks>(conv, input, sums);
    else if (blocks == kBlocks)
      AllTiles<kBlocks>::run[pixels - 1](conv, input, sums);
    else
      AllTiles<1>::run[pixels - 1](conv, input, sums);
    for (int32_t n = 0; n < blocks; ++n)
      finish_block(conv, arena, y, x, block + n, pixels, sums + n * pixels * kBlock);
  }

  // All blocks of a tile, then the next tile: its input is prepared once.
  void by_tile(int32_t first, int32_t last) const {
    for (int32_t y = first; y < last; ++y)
      for (int32_t tile = 0; tile < tiles; ++tile)
        for (int32_t block = 0; block < conv.out.blocks(); block += kBlocks)
          run(y, tile, block, blocks_from(block), block == 0);
  }

  // All tiles of some rows for the same blocks: their weights stay in the first cache.
  void by_block(int32_t first, int32_t last) const {
    constexpr int64_t kBytes = 48 * 1024;
    const int64_t row = conv.in.row * conv.window.stride_y + conv.out.row;
    const auto rows = static_cast<int32_t>(kBytes / row) + 1;
    for (int32_t top = first; top < last; top += rows)
      for (int32_t block = 0, blocks; block < conv.out.blocks(); block += blocks) {
        blocks = blocks_from(block);
        for (int32_t y = top; y < smaller(top + rows, last); ++y)
          for (int32_t tile = 0; tile < tiles; ++tile) run(y, tile, block, blocks, false);
      }
  }
};

}  // namespace

void conv(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  const Rows rows(conv, arena, scratch);
  kWidens ? rows.by_tile(first, last) : rows.by_block(first, last);
}

size_t conv_scratch(const Conv& conv) { return tile_scratch_bytes(conv); }

}  // namespace edgemeta::EM_NAMESPACE
