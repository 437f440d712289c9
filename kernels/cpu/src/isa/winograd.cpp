// Convolutions 3 x 3 with stride 1 by Winograd's F(2 x 2, 3 x 3), exact, where bytes cannot be multiplied without
// saturation: 16 products for four outputs of a channel instead of 36. Only AVX2 has the form: with VNNI 16 products of
// int16 take as long as 32 of bytes, plus the transforms, so that its tiles are larger (winograd_vnni.cpp).
//
//   4 y = A' [(G g G') * (B' d B)] A   for each input channel, summed modulo 2**32
//   B' = 1 0 -1 0   0 1 1 0   0 -1 1 0   0 1 0 -1,   A' = 1 1 1 0   0 1 -1 -1
//   G  = 2 0 0      1 1 1     1 -1 1     0 0 2       (twice the usual one, so that it has only integers)
//
// A. Lavin, S. Gray: Fast Algorithms for Convolutional Neural Networks. |B' d B| <= 4 * 255 fits int16; the planner has
// checked that G g G' does, and that |y| < 2**29, so that 4 y, exact modulo 2**32, gives y by a shift.
#include "table.h"

#if defined(EM_ISA_AVX2) && !defined(EM_ISA_AVXVNNI)
#include "finish_tile.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPositions = 16;  // of the transformed windows
constexpr int kTiles = 16;      // transformed at a time, each four outputs
constexpr int kJoint = 4;       // of these, multiplied at a time: eight registers of sums

// Input channels, padded; the others have the weight 0.
inline int64_t depth_of(const Conv& conv) { return int64_t{conv.in.blocks()} * kBlock; }

// transform(d0 .. d3) = B' d
template <typename Store>
INLINE inline void transform4(__m256i a, __m256i b, __m256i c, __m256i d, const Store& store_at) {
  store_at(0, _mm256_sub_epi16(a, c));
  store_at(1, _mm256_add_epi16(b, c));
  store_at(2, _mm256_sub_epi16(c, b));
  store_at(3, _mm256_sub_epi16(b, d));
}

// B' d B of one tile, whose four rows begin at `rows`, to to[position][kTiles][depth].
void transform_input(const uint8_t* const rows[4], int64_t pixel, int64_t depth, int16_t* to) {
  for (int64_t c = 0; c < depth; c += kBlock) {
    __m256i half[4][4];
    unrolled<4>([&](auto x) INLINE {
      const auto at = [&](int y) INLINE {
        const uint8_t* from = rows[y] + x.value * pixel + c;
        return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
      };
      transform4(at(0), at(1), at(2), at(3), [&](int i, __m256i value) INLINE { half[i][x.value] = value; });
    });
    unrolled<4>([&](auto y) INLINE {
      const auto& row = half[y.value];
      transform4(row[0], row[1], row[2], row[3], [&](int i, __m256i value) INLINE {
        int16_t* place = to + (y.value * 4 + i) * kTiles * depth + c;
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(place), value);
      });
    });
  }
}

// The sums of products of P tiles for a block of outputs, at every position: to products[P][position][16].
template <int P>
void multiply(const int16_t* inputs, const int16_t* weights, int64_t depth, int32_t* products) {
  for (int position = 0; position < kPositions; ++position, inputs += kTiles * depth, products += kBlock) {
    I32x16 acc[P];
    unrolled<P>([&](auto p) INLINE { acc[p.value] = splat(0); });
    for (int64_t c = 0; c < depth; c += 2, weights += 2 * kBlock) {
      const __m256i wa = load8(weights), wb = load8(weights + kBlock);
      unrolled<P>([&](auto p) INLINE {
        int32_t pair;
        memcpy(&pair, inputs + p.value * depth + c, 4);
        const __m256i x = _mm256_set1_epi32(pair);
        I32x16& sum = acc[p.value];
        sum = {_mm256_add_epi32(sum.a, _mm256_madd_epi16(x, wa)), _mm256_add_epi32(sum.b, _mm256_madd_epi16(x, wb))};
      });
    }
    unrolled<P>([&](auto p) INLINE { store(products + p.value * kPositions * kBlock, acc[p.value]); });
  }
}

// A' m A / 4 + bias of one tile: two outputs in each of two rows.
INLINE inline void transform_output(const int32_t* products, const I32x16& bias, int32_t* upper, int32_t* lower) {
  unrolled<2>([&](auto j) INLINE {
    I32x16 column[4];
    unrolled<4>([&](auto i) INLINE {
      const int32_t* m = products + i.value * 4 * kBlock;
      column[i.value] = j.value == 0 ? load(m) + load(m + kBlock) + load(m + 2 * kBlock)
                                     : load(m + kBlock) - load(m + 2 * kBlock) - load(m + 3 * kBlock);
    });
    store(upper + j.value * kBlock, shift_right(column[0] + column[1] + column[2], 2) + bias);
    store(lower + j.value * kBlock, shift_right(column[1] - column[2] - column[3], 2) + bias);
  });
}

// The rows first .. last - 1 in pairs; the last of an odd number by itself.
struct Winograd {
  const Conv& conv;
  uint8_t* arena;
  int32_t first, last, columns;  // tiles of a pair of rows
  int64_t depth;
  int16_t* inputs;    // [position][kTiles][depth]
  int32_t* products;  // [kTiles][position][16]

  Winograd(const Conv& given, uint8_t* at, int32_t from, int32_t to, uint8_t* scratch)
      : conv(given),
        arena(at),
        first(from),
        last(to),
        columns((given.out.width + 1) / 2),
        depth(depth_of(given)),
        inputs(reinterpret_cast<int16_t*>(scratch)),
        products(reinterpret_cast<int32_t*>(scratch + kPositions * kTiles * depth_of(given) * sizeof(int16_t))) {}

  int32_t row_of(int32_t tile) const { return first + tile / columns * 2; }

  void prepare(int32_t begin, int32_t end) const {
    for (int32_t tile = begin; tile < end; ++tile) {
      const int32_t y = row_of(tile), x = tile % columns * 2;
      const uint8_t* rows[4];
      rows[0] = arena + conv.in.at(y - conv.window.top, x - conv.window.left);
      for (int i = 1; i < 4; ++i) rows[i] = rows[i - 1] + conv.in.row;
      if (y + 1 == last) rows[3] = rows[2];  // only the dropped row of outputs depends on it
      transform_input(rows, conv.in.pixel, depth, inputs + (tile - begin) * depth);
    }
  }

  void multiply_all(int32_t count, const int16_t* weights) const {
    constexpr void (*run[])(const int16_t*, const int16_t*, int64_t, int32_t*) = {multiply<1>, multiply<2>, multiply<3>,
                                                                                  multiply<kJoint>};
    for (int32_t tile = 0; tile < count; tile += kJoint)
      run[smaller(kJoint, count - tile) - 1](inputs + tile * depth, weights, depth,
                                             products + tile * kPositions * kBlock);
  }

  // Tiles of one pair of rows at a time.
  void finish(int32_t begin, int32_t end, int32_t block) const {
    alignas(64) int32_t sums[2][2 * kTiles * kBlock];
    const I32x16 bias = load(conv.bias + block * kBlock);
    for (int32_t tile = begin, next; tile < end; tile = next) {
      const int32_t column = tile % columns, y = row_of(tile);
      next = smaller(tile - column + columns, end);
      for (int32_t i = 0; i < next - tile; ++i)
        transform_output(products + (tile - begin + i) * kPositions * kBlock, bias, sums[0] + i * 2 * kBlock,
                         sums[1] + i * 2 * kBlock);
      const int32_t pixels = smaller(2 * (next - tile), conv.out.width - 2 * column);
      finish_block(conv, arena, y, 2 * column, block, pixels, sums[0]);
      if (y + 1 < last) finish_block(conv, arena, y + 1, 2 * column, block, pixels, sums[1]);
    }
  }

  void run() const {
    const int32_t tiles = (last - first + 1) / 2 * columns;
    for (int32_t begin = 0; begin < tiles; begin += kTiles) {
      const int32_t end = smaller(begin + kTiles, tiles);
      prepare(begin, end);
      for (int32_t block = 0; block < conv.out.blocks(); ++block) {
        const uint8_t* weights = static_cast<const uint8_t*>(conv.weights) + block * conv.block_bytes;
        multiply_all(end - begin, reinterpret_cast<const int16_t*>(weights));
        finish(begin, end, block);
      }
    }
  }
};

}  // namespace

void conv_winograd(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  Winograd(conv, arena, first, last, scratch).run();
}

size_t conv_winograd_scratch(const Conv& conv) {
  return static_cast<size_t>(kPositions * kTiles * (depth_of(conv) * sizeof(int16_t) + kBlock * sizeof(int32_t)));
}

}  // namespace edgemeta::EM_NAMESPACE
#endif
