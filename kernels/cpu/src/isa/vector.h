// Sixteen int32 lanes, the only vector type of the kernels, for the instruction set of this file.
// Sixteen int64 lanes are kept as the even ones and the odd ones. NEON's are in vector_neon.h.
//
// Each file under isa/ is compiled once per instruction set, in a namespace of its own. Nothing here may call an inline
// function of the standard library: the linker could keep a copy with instructions that another machine does not
// support.
#pragma once

#include <stdint.h>
#include <string.h>

#if defined(EM_ISA_AVX512)
#include <immintrin.h>
#define EM_NAMESPACE avx512
#elif defined(EM_ISA_AVX2)
#include <immintrin.h>
#if defined(EM_ISA_AVXVNNI) && defined(EM_ENCODE_EVEX)
#define EM_NAMESPACE avxvnni_evex
#elif defined(EM_ISA_AVXVNNI)
#define EM_NAMESPACE avxvnni
#else
#define EM_NAMESPACE avx2
#endif
#elif defined(EM_ISA_I8MM)
#define EM_NAMESPACE i8mm
#elif defined(EM_ISA_DOTPROD)
#define EM_NAMESPACE dotprod
#elif defined(EM_ISA_NEON)
#define EM_NAMESPACE neon
#else
#define EM_NAMESPACE portable
#endif

#define INLINE __attribute__((always_inline))

namespace edgemeta::EM_NAMESPACE {
namespace {

// Call f(Constant<0>()), f(Constant<1>()) ... f(Constant<N - 1>()): a loop whose index is a compile-time constant, so
// that arrays indexed by it become registers.
template <int I>
struct Constant {
  static constexpr int value = I;
};
template <int I, int N, typename F>
INLINE inline void unrolled_from(const F& f) {
  if constexpr (I < N) {
    f(Constant<I>());
    unrolled_from<I + 1, N>(f);
  }
}
template <int N, typename F>
INLINE inline void unrolled(const F& f) {
  unrolled_from<0, N>(f);
}

// A type as a value, to select a template by.
template <typename T>
struct Type {
  using Of = T;
};

// The range of bytes that are stored: all that a byte holds. A ByteRange is a narrower one.
struct AnyByte {};

inline int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }
inline int32_t greater(int32_t a, int32_t b) { return a > b ? a : b; }

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE

#if defined(EM_ISA_NEON)
#include "vector_neon.h"
#elif defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)
#include "byte_range.h"
#endif

namespace edgemeta::EM_NAMESPACE {
namespace {

#if !defined(EM_ISA_NEON)
typedef uint8_t Byte;  // an integer of an 8-bit tensor in memory
#endif

#if defined(EM_ISA_AVX512)

struct I32x16 {
  __m512i v;
};

inline I32x16 load(const int32_t* p) { return {_mm512_loadu_si512(p)}; }
inline I32x16 load_bytes(const uint8_t* p) {
  return {_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)))};
}
inline void store(int32_t* p, I32x16 a) { _mm512_storeu_si512(p, a.v); }
// clamp(zero + lane, 0, 255), then to the range: saturating to 16 bits, before and after the sum, changes nothing.
template <typename Range = AnyByte>
inline void store_bytes(uint8_t* p, I32x16 a, const Range& range = {}) {
  const __m512i words = moved(_mm512_castsi256_si512(_mm512_cvtsepi32_epi16(a.v)), range);
  const __m512i positive = _mm512_max_epi16(words, _mm512_setzero_si512());
  const __m512i bytes = within(_mm512_castsi256_si512(_mm512_cvtusepi16_epi8(positive)), range);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_castsi512_si128(bytes));
}
// The bytes of four vectors whose words are packed by twos: packing works within 128 bits and leaves four lanes of each
// vector side by side.
template <typename Range>
inline __m512i packed_bytes(__m512i first, __m512i second, const Range& range) {
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  return within(_mm512_permutexvar_epi32(order, _mm512_packus_epi16(first, second)), range);
}
// Four of them, `step` bytes apart.
template <typename Range = AnyByte>
INLINE inline void store_bytes(uint8_t* p, int64_t step, I32x16 a, I32x16 b, I32x16 c, I32x16 d,
                               const Range& range = {}) {
  const __m512i bytes = packed_bytes(moved(_mm512_packs_epi32(a.v, b.v), range),
                                     moved(_mm512_packs_epi32(c.v, d.v), range), range);
  if (step == 16) return _mm512_storeu_si512(p, bytes);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_castsi512_si128(bytes));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + step), _mm512_extracti32x4_epi32(bytes, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 2 * step), _mm512_extracti32x4_epi32(bytes, 2));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 3 * step), _mm512_extracti32x4_epi32(bytes, 3));
}
// Two neighbouring blocks of a pixel, and of the next one.
template <typename Range>
INLINE inline void store_blocks(uint8_t* p, int64_t step, const I32x16 (&first)[2], const I32x16 (&second)[2],
                                const Range& range) {
  const __m512i bytes = packed_bytes(moved(_mm512_packs_epi32(first[0].v, first[1].v), range),
                                     moved(_mm512_packs_epi32(second[0].v, second[1].v), range), range);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_castsi512_si256(bytes));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + step), _mm512_extracti64x4_epi64(bytes, 1));
}
inline I32x16 splat(int32_t x) { return {_mm512_set1_epi32(x)}; }
inline I32x16 operator+(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
inline I32x16 operator-(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
inline I32x16 operator*(I32x16 a, I32x16 b) { return {_mm512_mullo_epi32(a.v, b.v)}; }
inline I32x16 operator&(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
inline I32x16 min(I32x16 a, I32x16 b) { return {_mm512_min_epi32(a.v, b.v)}; }
inline I32x16 max(I32x16 a, I32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
inline I32x16 shift_right(I32x16 a, I32x16 n) { return {_mm512_srav_epi32(a.v, n.v)}; }
inline I32x16 shift_right(I32x16 a, int n) { return {_mm512_sra_epi32(a.v, _mm_cvtsi32_si128(n))}; }

struct F32x16 {
  __m512 v;
};

inline F32x16 load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline F32x16 to_float(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
inline F32x16 multiply_add(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }

// As Lines::down: floor(a * b + c), exact while it fits int32, as rounding down before the floor does not change it.
inline I32x16 line_value(F32x16 a, F32x16 b, F32x16 c) {
  constexpr int down = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  return {_mm512_cvt_roundps_epi32(_mm512_fmadd_round_ps(a.v, b.v, c.v, down), down)};
}

struct I64x16 {
  __m512i even, odd;
};

inline I64x16 load(const int64_t* p) { return {_mm512_loadu_si512(p), _mm512_loadu_si512(p + 8)}; }

// Low 32 bits of (a * multiplier + half) >> shift in int64.
inline I32x16 multiply_shift(I32x16 a, I32x16 multiplier, I64x16 half, I64x16 shift) {
  __m512i even = _mm512_mul_epi32(a.v, multiplier.v);
  __m512i odd = _mm512_mul_epi32(_mm512_srli_epi64(a.v, 32), _mm512_srli_epi64(multiplier.v, 32));
  even = _mm512_srav_epi64(_mm512_add_epi64(even, half.even), shift.even);
  odd = _mm512_srav_epi64(_mm512_add_epi64(odd, half.odd), shift.odd);
  return {_mm512_mask_blend_epi32(0xAAAA, even, _mm512_slli_epi64(odd, 32))};
}

#elif defined(EM_ISA_AVX2)

struct I32x16 {
  __m256i a, b;
};

inline __m256i load8(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline I32x16 load(const int32_t* p) { return {load8(p), load8(p + 8)}; }
inline I32x16 load_bytes(const uint8_t* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
inline void store(int32_t* p, I32x16 x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), x.a);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 8), x.b);
}
// clamp(zero + lane, 0, 255), then to the range: saturating to 16 bits, before and after the sum, changes nothing.
template <typename Range = AnyByte>
inline void store_bytes(uint8_t* p, I32x16 x, const Range& range = {}) {
  const __m256i words = moved(_mm256_permute4x64_epi64(_mm256_packs_epi32(x.a, x.b), 0xD8), range);
  const __m128i bytes = _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  const __m256i stored = within(_mm256_castsi128_si256(bytes), range);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(stored));
}
// Four of them, `step` bytes apart. Packing works within 128 bits and leaves four lanes of each vector side by side.
template <typename Range = AnyByte>
INLINE inline void store_bytes(uint8_t* p, int64_t step, I32x16 x, I32x16 y, I32x16 z, I32x16 w,
                               const Range& range = {}) {
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const auto two = [&](uint8_t* at, const I32x16& first, const I32x16& second) INLINE {
    const __m256i low = moved(_mm256_packs_epi32(first.a, first.b), range);
    const __m256i high = moved(_mm256_packs_epi32(second.a, second.b), range);
    const __m256i packed = _mm256_packus_epi16(low, high);
    const __m256i bytes = within(_mm256_permutevar8x32_epi32(packed, order), range);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at), _mm256_castsi256_si128(bytes));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(at + step), _mm256_extracti128_si256(bytes, 1));
  };
  two(p, x, y);
  two(p + 2 * step, z, w);
}
inline I32x16 splat(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
inline I32x16 operator+(I32x16 x, I32x16 y) { return {_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
inline I32x16 operator-(I32x16 x, I32x16 y) { return {_mm256_sub_epi32(x.a, y.a), _mm256_sub_epi32(x.b, y.b)}; }
inline I32x16 operator*(I32x16 x, I32x16 y) { return {_mm256_mullo_epi32(x.a, y.a), _mm256_mullo_epi32(x.b, y.b)}; }
inline I32x16 operator&(I32x16 x, I32x16 y) { return {_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
inline I32x16 min(I32x16 x, I32x16 y) { return {_mm256_min_epi32(x.a, y.a), _mm256_min_epi32(x.b, y.b)}; }
inline I32x16 max(I32x16 x, I32x16 y) { return {_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
inline I32x16 shift_right(I32x16 x, I32x16 n) { return {_mm256_srav_epi32(x.a, n.a), _mm256_srav_epi32(x.b, n.b)}; }
inline I32x16 shift_right(I32x16 x, int n) {
  const __m128i count = _mm_cvtsi32_si128(n);
  return {_mm256_sra_epi32(x.a, count), _mm256_sra_epi32(x.b, count)};
}

struct F32x16 {
  __m256 a, b;
};

inline F32x16 load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline F32x16 to_float(I32x16 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
inline F32x16 multiply_add(F32x16 x, F32x16 y, F32x16 z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}

// As Lines::nearest: a * b + c as float32, rounded to the nearest integer, halves to the even one.
inline I32x16 line_value(F32x16 x, F32x16 y, F32x16 z) {
  const F32x16 sum = multiply_add(x, y, z);
  return {_mm256_cvtps_epi32(sum.a), _mm256_cvtps_epi32(sum.b)};
}

struct I64x16 {
  __m256i even_a, even_b, odd_a, odd_b;
};

inline I64x16 load(const int64_t* p) { return {load8(p), load8(p + 4), load8(p + 8), load8(p + 12)}; }

// x >> n for int64 lanes: a logical shift of x + 2**63, from which 2**63 >> n is taken again.
inline __m256i shift_right64(__m256i x, __m256i n) {
  const __m256i top = _mm256_set1_epi64x(INT64_MIN);
  return _mm256_sub_epi64(_mm256_srlv_epi64(_mm256_xor_si256(x, top), n), _mm256_srlv_epi64(top, n));
}

inline __m256i multiply_shift8(__m256i a, __m256i m, __m256i half_even, __m256i half_odd, __m256i even_shift,
                               __m256i odd_shift) {
  __m256i even = _mm256_mul_epi32(a, m);
  __m256i odd = _mm256_mul_epi32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(m, 32));
  even = shift_right64(_mm256_add_epi64(even, half_even), even_shift);
  odd = shift_right64(_mm256_add_epi64(odd, half_odd), odd_shift);
  return _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xAA);
}

// Low 32 bits of (a * multiplier + half) >> shift in int64.
inline I32x16 multiply_shift(I32x16 x, I32x16 multiplier, I64x16 half, I64x16 shift) {
  return {multiply_shift8(x.a, multiplier.a, half.even_a, half.odd_a, shift.even_a, shift.odd_a),
          multiply_shift8(x.b, multiplier.b, half.even_b, half.odd_b, shift.even_b, shift.odd_b)};
}

#elif !defined(EM_ISA_NEON)

struct I32x16 {
  int32_t v[16];
};

struct F32x16 {
  float v[16];
};

// Written so that the compiler vectorizes each loop. Sums wrap: they are computed as unsigned.
template <typename Vector = I32x16, typename F>
inline Vector lanes(F f) {
  Vector r;
  for (int i = 0; i < 16; ++i) r.v[i] = f(i);
  return r;
}
inline int32_t wrap(uint32_t x) { return static_cast<int32_t>(x); }
inline uint32_t bits(int32_t x) { return static_cast<uint32_t>(x); }

inline I32x16 load(const int32_t* p) {
  return lanes([=](int i) { return p[i]; });
}
inline I32x16 load_bytes(const uint8_t* p) {
  return lanes([=](int i) { return int32_t{p[i]}; });
}
inline void store(int32_t* p, const I32x16& a) { memcpy(p, a.v, sizeof a.v); }
struct ByteRange {
  int32_t lo, hi, zero;
  ByteRange(int32_t least, int32_t greatest, int32_t given)
      : lo(least - given), hi(greatest - given), zero(given) {}
};
struct MovedByte : ByteRange {
  explicit MovedByte(int32_t given) : ByteRange(0, 255, given) {}
};
// clamp(zero + lane, 0, 255), then to the range.
inline void store_bytes(uint8_t* p, const I32x16& a, const ByteRange& range) {
  for (int i = 0; i < 16; ++i)
    p[i] = static_cast<uint8_t>(smaller(greater(a.v[i], range.lo), range.hi) + range.zero);
}
inline void store_bytes(uint8_t* p, const I32x16& a, AnyByte = {}) { store_bytes(p, a, MovedByte(0)); }
inline I32x16 splat(int32_t x) {
  return lanes([=](int) { return x; });
}
inline I32x16 operator+(const I32x16& a, const I32x16& b) {
  return lanes([&](int i) { return wrap(bits(a.v[i]) + bits(b.v[i])); });
}
inline I32x16 operator-(const I32x16& a, const I32x16& b) {
  return lanes([&](int i) { return wrap(bits(a.v[i]) - bits(b.v[i])); });
}
inline I32x16 operator*(const I32x16& a, const I32x16& b) {
  return lanes([&](int i) { return wrap(bits(a.v[i]) * bits(b.v[i])); });
}
inline I32x16 operator&(const I32x16& a, const I32x16& b) {
  return lanes([&](int i) { return a.v[i] & b.v[i]; });
}
inline I32x16 min(const I32x16& a, const I32x16& b) {
  return lanes([&](int i) { return smaller(a.v[i], b.v[i]); });
}
inline I32x16 max(const I32x16& a, const I32x16& b) {
  return lanes([&](int i) { return greater(a.v[i], b.v[i]); });
}
inline I32x16 shift_right(const I32x16& a, const I32x16& n) {
  return lanes([&](int i) { return a.v[i] >> n.v[i]; });
}
inline I32x16 shift_right(const I32x16& a, int n) {
  return lanes([&](int i) { return a.v[i] >> n; });
}

inline F32x16 load(const float* p) {
  return lanes<F32x16>([=](int i) { return p[i]; });
}
inline F32x16 to_float(const I32x16& a) {
  return lanes<F32x16>([&](int i) { return static_cast<float>(a.v[i]); });
}
// The product is rounded, too: a compiler must not fuse it with the sum (-ffp-contract=off).
inline F32x16 multiply_add(const F32x16& a, const F32x16& b, const F32x16& c) {
  return lanes<F32x16>([&](int i) { return a.v[i] * b.v[i] + c.v[i]; });
}

// As Lines::stepwise: a * b + c in two steps, rounded down to an integer, which fits int32. A conversion cuts the
// fraction off: of a number below 0 it may give one more.
inline I32x16 line_value(const F32x16& a, const F32x16& b, const F32x16& c) {
  return lanes([&](int i) {
    const float sum = a.v[i] * b.v[i] + c.v[i];
    const int32_t whole = static_cast<int32_t>(sum);
    return whole - (static_cast<float>(whole) > sum);
  });
}

struct I64x16 {
  int64_t v[16];
};

inline I64x16 load(const int64_t* p) {
  I64x16 r;
  memcpy(r.v, p, sizeof r.v);
  return r;
}

// Low 32 bits of (a * multiplier + half) >> shift in int64.
inline I32x16 multiply_shift(const I32x16& a, const I32x16& multiplier, const I64x16& half, const I64x16& shift) {
  return lanes([&](int i) {
    const int j = i / 2 + i % 2 * 8;
    return static_cast<int32_t>((int64_t{a.v[i]} * multiplier.v[i] + half.v[j]) >> shift.v[j]);
  });
}

#endif

#if !defined(EM_ISA_AVX512) && !defined(EM_ISA_AVX2)
template <typename Range = AnyByte>
inline void store_bytes(uint8_t* p, int64_t step, const I32x16& a, const I32x16& b, const I32x16& c, const I32x16& d,
                        const Range& range = {}) {
  store_bytes(p, a, range);
  store_bytes(p + step, b, range);
  store_bytes(p + 2 * step, c, range);
  store_bytes(p + 3 * step, d, range);
}
#endif

inline I32x16 clamp(const I32x16& a, int32_t lo, int32_t hi) { return min(max(a, splat(lo)), splat(hi)); }

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
