// The two sums of an area resize with vectors of bytes and words, for the usual frames: three channels, at most 257
// units of rows under a pixel, no row weight above 64. Results equal those of the plain loops in resize.cpp.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

#if defined(EM_ISA_AVX512)

typedef __m512i Bytes;
constexpr int64_t kBytes = 64;
inline Bytes load_vector(const void* p) { return _mm512_loadu_si512(p); }
inline void store_vector(uint16_t* p, Bytes v) { _mm512_storeu_si512(p, v); }
inline Bytes zero_vector() { return _mm512_setzero_si512(); }
inline Bytes pair_of(int32_t a, int32_t b) { return _mm512_set1_epi16(static_cast<int16_t>(b * 256 + a)); }
inline Bytes interleave_low(Bytes a, Bytes b) { return _mm512_unpacklo_epi8(a, b); }
inline Bytes interleave_high(Bytes a, Bytes b) { return _mm512_unpackhi_epi8(a, b); }
inline Bytes add_products(Bytes sum, Bytes bytes, Bytes weights) {
  return _mm512_add_epi16(sum, _mm512_maddubs_epi16(bytes, weights));
}
// Interleaving works within 128 bits: put the quarters of both sums into the order of the columns.
inline Bytes first_columns(Bytes low, Bytes high) {
  return _mm512_permutex2var_epi64(low, _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11), high);
}
inline Bytes last_columns(Bytes low, Bytes high) {
  return _mm512_permutex2var_epi64(low, _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15), high);
}

#elif defined(EM_ISA_AVX2)

typedef __m256i Bytes;
constexpr int64_t kBytes = 32;
inline Bytes load_vector(const void* p) { return load8(p); }
inline void store_vector(uint16_t* p, Bytes v) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v); }
inline Bytes zero_vector() { return _mm256_setzero_si256(); }
inline Bytes pair_of(int32_t a, int32_t b) { return _mm256_set1_epi16(static_cast<int16_t>(b * 256 + a)); }
inline Bytes interleave_low(Bytes a, Bytes b) { return _mm256_unpacklo_epi8(a, b); }
inline Bytes interleave_high(Bytes a, Bytes b) { return _mm256_unpackhi_epi8(a, b); }
inline Bytes add_products(Bytes sum, Bytes bytes, Bytes weights) {
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(bytes, weights));
}
inline Bytes first_columns(Bytes low, Bytes high) { return _mm256_permute2x128_si256(low, high, 0x20); }
inline Bytes last_columns(Bytes low, Bytes high) { return _mm256_permute2x128_si256(low, high, 0x31); }

#endif

#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)

// Weighted sums down V vectors of columns, two rows at a time: 255 * (64 + 64) fits the signed words of vpmaddubsw.
template <int V>
inline void sum_strip(const uint8_t* source, int64_t row_bytes, const int32_t* weights, int32_t count, uint16_t* sums) {
  Bytes low[V], high[V];
  for (int v = 0; v < V; ++v) low[v] = high[v] = zero_vector();
  for (int32_t i = 0; i < count; i += 2, source += 2 * row_bytes) {
    const bool second = i + 1 < count;  // a missing row has weight 0
    const uint8_t* below = second ? source + row_bytes : source;
    const Bytes pair = pair_of(weights[i], second ? weights[i + 1] : 0);
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      const Bytes a = load_vector(source + v * kBytes), b = load_vector(below + v * kBytes);
      low[v] = add_products(low[v], interleave_low(a, b), pair);
      high[v] = add_products(high[v], interleave_high(a, b), pair);
    }
  }
  for (int v = 0; v < V; ++v) {
    store_vector(sums + v * kBytes, first_columns(low[v], high[v]));
    store_vector(sums + v * kBytes + kBytes / 2, last_columns(low[v], high[v]));
  }
}

// For width >= kBytes. The first and the last strip overlap their neighbours, so that those between start at a whole
// vector's address and no column is left over.
inline void sum_rows_by_pairs(const uint8_t* source, int64_t row_bytes, const int32_t* weights, int32_t count,
                              int64_t width, uint16_t* sums) {
  const auto sum_at = [&](auto strip, int64_t x) { strip(source + x, row_bytes, weights, count, sums + x); };
  sum_at(sum_strip<1>, 0);
  int64_t x = kBytes - static_cast<int64_t>(reinterpret_cast<uintptr_t>(source) % kBytes);
  for (; x + 4 * kBytes <= width; x += 4 * kBytes) sum_at(sum_strip<4>, x);
  for (; x + kBytes <= width; x += kBytes) sum_at(sum_strip<1>, x);
  if (x < width) sum_at(sum_strip<1>, width - kBytes);
}

// Sums along a row, four pixels at a time: the words b0 g0 r0 b1 g1 r1 become b0 b1 g0 g1 r0 r1 0 0, and vpmaddwd adds
// each pair. As it takes signed words, 2**15 is subtracted from each sum before, and 2**15 * total added after.
inline void sum_columns_by_fours(const Resize& resize, const uint16_t* sums, uint32_t* out) {
  const Axis& columns = resize.columns;
  const __m256i order = _mm256_setr_epi8(0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1,  //
                                         0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11, -1, -1, -1, -1);
  const __m256i top = _mm256_set1_epi16(INT16_MIN);
  const __m128i restored = _mm_set1_epi32(columns.total << 15);
  const int16_t* weights = resize.column_pairs;
  for (int32_t j = 0; j < columns.size; ++j, out += 3) {
    const uint16_t* from = sums + int64_t{columns.start[j]} * 3;
    __m256i total = _mm256_setzero_si256();
    for (int32_t i = 0; i < columns.count[j]; i += 4, from += 12, weights += 16) {
      const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
      const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 6));
      const __m256i four = _mm256_xor_si256(_mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1), top);
      const __m256i pairs = _mm256_shuffle_epi8(four, order);
      total = _mm256_add_epi32(total,
                               _mm256_madd_epi16(pairs, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights))));
    }
    const __m128i both = _mm_add_epi32(_mm256_castsi256_si128(total), _mm256_extracti128_si256(total, 1));
    // The fourth word lands on the next pixel's place, which is written after it, or on the spare one at the end.
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm_add_epi32(both, restored));
  }
}

#endif

#if defined(EM_ISA_AVX512)

// Sums along the row and their division, a group of outputs at a time: the words of two taps for each output are
// gathered, and vpmaddwd adds each pair. As above, 2**15 is subtracted from each sum, and 2**15 * total added after.
// The division is that of `divide` in float. Each group writes 16 bytes; those after its outputs are written again.
inline void divide_columns_by_groups(const Resize& resize, const uint16_t* sums, int32_t area, uint8_t* out) {
  const Gather& gather = *resize.gather;
  const __m512i top = _mm512_set1_epi16(INT16_MIN), restored = _mm512_set1_epi32(resize.columns.total << 15);
  const __m512i half = _mm512_set1_epi32(area);
  const __m512 inverse = _mm512_set1_ps(1.0f / static_cast<float>(2 * area)), rest = _mm512_set1_ps(0.5f);
  const int16_t* taps = gather.taps;
  for (int32_t g = 0; g < gather.groups; ++g, out += gather.outputs) {
    const uint16_t* from = sums + gather.begin[g];
    const __m512i low = _mm512_xor_si512(_mm512_loadu_si512(from), top);
    const __m512i high = _mm512_xor_si512(_mm512_loadu_si512(from + 32), top);
    __m512i total = restored;
    for (int32_t p = 0; p < gather.pairs; ++p, taps += 64) {
      const __m512i pairs = _mm512_permutex2var_epi16(low, _mm512_loadu_si512(taps), high);
      total = _mm512_add_epi32(total, _mm512_madd_epi16(pairs, _mm512_loadu_si512(taps + 32)));
    }
    const __m512 numerator = _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_add_epi32(total, total), half));
    const __m512i quotient = _mm512_cvttps_epi32(_mm512_mul_ps(_mm512_add_ps(numerator, rest), inverse));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_cvtepi32_epi8(quotient));
  }
}

#endif

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
