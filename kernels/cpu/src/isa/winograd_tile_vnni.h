// Tiles of Winograd F(4x4, 3x3) with VNNI (winograd_f4.h): the transform of inputs, the products with the first half of
// the outputs' transform, and its second half.
//
// A column of six points is multiplied at a time, so that its transform, A^T m, finds the sums in registers and only
// four of six are stored.
#pragma once

#include "winograd_f4.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kTiles = 8;  // transformed at a time
constexpr int kJoint = 4;  // of these, multiplied at a time
constexpr int kTileWords = kBlock, kRowWords = kTiles * kTileWords, kColumnWords = kIn * kRowWords;
constexpr int kChunkWords = kIn * kColumnWords;  // all points of 16 channels: [column][row][tile][16]

// Sixteen pairs of int16; sum + x w for each, of the pair at `from` with each of w.
#if defined(EM_ISA_AVX512)
inline I32x16 load_pairs(const int16_t* p) { return {_mm512_loadu_si512(p)}; }

// The pair is spread by the instruction itself, which GCC 12 does not find.
INLINE inline I32x16 add_pairs(I32x16 sum, const int16_t* from, I32x16 w) {
  asm("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum.v) : "v"(w.v), "m"(*reinterpret_cast<const int16_t(*)[2]>(from)));
  return sum;
}
#else
inline I32x16 load_pairs(const int16_t* p) { return {load8(p), load8(p + 16)}; }

INLINE inline __m256i add_pairs(__m256i sum, __m256i x, __m256i w) {
#if defined(EM_ENCODE_EVEX)
  return _mm256_dpwssd_epi32(sum, x, w);
#else
  return _mm256_dpwssd_avx_epi32(sum, x, w);
#endif
}
INLINE inline I32x16 add_pairs(I32x16 sum, const int16_t* from, I32x16 w) {
  int32_t pair;
  memcpy(&pair, from, 4);
  const __m256i x = _mm256_set1_epi32(pair);
  return {add_pairs(sum.a, x, w.a), add_pairs(sum.b, x, w.b)};
}
#endif
inline I32x16 twice(I32x16 a) { return a + a; }

inline __m256i load_wide(const uint8_t* p) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

// B^T d of sixteen channels, as store_at(row, value).
template <typename Store>
INLINE inline void transform_words(const __m256i* d, const Store& store_at) {
  const __m256i c = _mm256_sub_epi16(d[4], d[2]), t = _mm256_sub_epi16(d[3], d[1]), e = _mm256_add_epi16(t, t);
  const __m256i a = _mm256_sub_epi16(d[4], _mm256_slli_epi16(d[2], 2));
  const __m256i b = _mm256_sub_epi16(d[3], _mm256_slli_epi16(d[1], 2));
  store_at(0, _mm256_add_epi16(c, _mm256_slli_epi16(_mm256_sub_epi16(d[0], d[2]), 2)));
  store_at(1, _mm256_add_epi16(a, b));
  store_at(2, _mm256_sub_epi16(a, b));
  store_at(3, _mm256_add_epi16(c, e));
  store_at(4, _mm256_sub_epi16(c, e));
  store_at(5, _mm256_sub_epi16(_mm256_sub_epi16(d[5], d[3]), _mm256_add_epi16(e, e)));
}

// The points of one tile for sixteen channels. rows: the addresses of its six rows; `step` bytes between two pixels.
INLINE inline void transform_input(const uint8_t* const* rows, int64_t step, int16_t* to) {
  __m256i columns[kIn][kIn];  // [row of B^T][column of the tile]
  unrolled<kIn>([&](auto j) INLINE {
    __m256i d[kIn];
    unrolled<kIn>([&](auto i) INLINE { d[i.value] = load_wide(rows[i.value] + j.value * step); });
    transform_words(d, [&](int i, __m256i value) INLINE { columns[i][j.value] = value; });
  });
  unrolled<kIn>([&](auto i) INLINE {
    int16_t* at = to + i.value * kRowWords;
    transform_words(columns[i.value], [&](int j, __m256i value) INLINE {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + j * kColumnWords), value);
    });
  });
}

// A^T m with the factors of G's rows, row i divided by 2**kDivided[i], as store_at(row, value).
template <typename Store>
INLINE inline void transform_sums(const I32x16* m, const Store& store_at) {
  const I32x16 s = m[1] + m[2], d = m[1] - m[2], t = m[3] + m[4], e = m[3] - m[4];
  store_at(Constant<0>(), twice(m[0] + twice(m[0] - s)) + t);
  store_at(Constant<1>(), e - twice(d));
  store_at(Constant<2>(), t - s);
  store_at(Constant<3>(), twice(m[5] + twice(m[5]) + e) - d);
}

constexpr int kHalfRow = kIn * kBlock, kHalfTile = kSide * kHalfRow;  // [row of A^T][column][16]

#if defined(EM_ISA_AVX512)
// Three weights as a polynomial, a + b x + c x^2, at a point, of which 3 is infinity: a row of G.
template <int kPoint>
INLINE inline I32x16 at_point(I32x16 a, I32x16 b, I32x16 c) {
  if (kPoint % 3 == 0) return kPoint ? c : a;
  constexpr bool is_two = kPoint * kPoint == 4;
  const __m512i even = _mm512_add_epi16(a.v, is_two ? _mm512_slli_epi16(c.v, 2) : c.v);
  const __m512i odd = is_two ? _mm512_add_epi16(b.v, b.v) : b.v;
  return {kPoint > 0 ? _mm512_add_epi16(even, odd) : _mm512_sub_epi16(even, odd)};
}

// Adds a column of points of T tiles by a block of outputs to `sums`. in: [chunk][column][row][tile][16]; weights:
// [pair of channels][3][3][16][2], transformed here, as they would be four times as large; the next are prefetched.
template <int T>
INLINE inline void multiply_points(const int16_t* in, const int16_t* weights, int32_t chunks, int column,
                                   I32x16 (*sums)[T]) {
  constexpr int kTap = 2 * kBlock, kPair = 9 * kTap;
  const int16_t* ahead = weights + chunks * (kBlock / 2 * kPair) + (column - 2) * 3 * kTap;
  for (; chunks > 0; --chunks, in += kChunkWords - kBlock)
    for (int pair = 0; pair < kBlock / 2; ++pair, in += 2, weights += kPair, ahead += kPair) {
      I32x16 h[3];
      const auto sum_taps = [&](const auto& sum) INLINE {
        unrolled<3>([&](auto y) INLINE {
          const int16_t* row = weights + y.value * 3 * kTap;
          h[y.value] = sum(load_pairs(row), load_pairs(row + kTap), load_pairs(row + 2 * kTap));
        });
      };
      // The same in all rounds, and so predicted; a loop for each column would be six times as much code.
      column == 0   ? sum_taps(at_point<0>)
      : column == 1 ? sum_taps(at_point<1>)
      : column == 2 ? sum_taps(at_point<-1>)
      : column == 3 ? sum_taps(at_point<2>)
      : column == 4 ? sum_taps(at_point<-2>)
                    : sum_taps(at_point<3>);
      if (column >= 2 && column <= 4) unrolled<3>([&](auto i) INLINE { __builtin_prefetch(ahead + i.value * kTap); });
      const auto multiply = [&](int row, const auto& sum) INLINE {
        const I32x16 w = sum(h[0], h[1], h[2]);
        unrolled<T>([&](auto t) INLINE {
          sums[row][t.value] = add_pairs(sums[row][t.value], in + row * kRowWords + t.value * kTileWords, w);
        });
      };
      multiply(0, at_point<0>);
      multiply(5, at_point<3>);
      multiply(1, at_point<1>);
      multiply(2, at_point<-1>);
      multiply(3, at_point<2>);
      multiply(4, at_point<-2>);
    }
}
#else
// The same with transformed weights, [column][pair of channels][row][16][2]: registers hold the sums of one row.
template <int T>
INLINE inline void multiply_points(const int16_t* in, const int16_t* weights, int32_t chunks, int column,
                                   I32x16 (*sums)[T]) {
  weights += int64_t{column} * chunks * kBlock * kIn * kBlock;
  for (int row = 0; row < kIn; ++row, in += kRowWords, weights += 2 * kBlock) {
    I32x16 acc[T];
    unrolled<T>([&](auto t) INLINE { acc[t.value] = sums[row][t.value]; });
    const int16_t *from = in, *w = weights;
    for (int32_t chunk = 0; chunk < chunks; ++chunk, from += kChunkWords - kBlock)
      for (int pair = 0; pair < kBlock / 2; ++pair, from += 2, w += kIn * 2 * kBlock)
        unrolled<T>([&, of = load_pairs(w)](auto t) INLINE {
          acc[t.value] = add_pairs(acc[t.value], from + t.value * kTileWords, of);
        });
    unrolled<T>([&](auto t) INLINE { sums[row][t.value] = acc[t.value]; });
  }
}
#endif

// One column of points of T tiles by a block of outputs, then A^T m: to[T][4][6][16], this column of it. `bias` is
// added to its second point.
template <int T>
void multiply_column(const int16_t* in, const int16_t* weights, int32_t chunks, int column, I32x16 bias, int32_t* to) {
  I32x16 sums[kIn][T];
  unrolled<kIn * T>([&](auto i) INLINE { sums[i.value / T][i.value % T] = i.value / T == 1 ? bias : splat(0); });
  multiply_points<T>(in, weights, chunks, column, sums);
  unrolled<T>([&](auto t) INLINE {
    I32x16 m[kIn];
    unrolled<kIn>([&](auto i) INLINE { m[i.value] = sums[i.value][t.value]; });
    int32_t* tile = to + t.value * kHalfTile;
    transform_sums(m, [&](auto row, const I32x16& sum) INLINE { store(tile + row.value * kHalfRow, sum); });
  });
}

// The four accumulators of a row of a tile: from[6][16], to[4][16]. The product is 64 y / 2**kDivided[j].
INLINE inline void transform_row(int row, const int32_t* from, int32_t* to) {
  I32x16 m[kIn];
  unrolled<kIn>([&](auto j) INLINE { m[j.value] = load(from + j.value * kBlock); });
  const I32x16 inverse = splat(static_cast<int32_t>(kInverseOfNine << kDivided[row]));
  transform_sums(m, [&](auto j, const I32x16& sum) INLINE {
    store(to + j.value * kBlock, shift_right(sum * inverse, 6 - kDivided[j.value]));
  });
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
