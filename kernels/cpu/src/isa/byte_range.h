// What AVX-512 and AVX2 do to results as they become bytes: add the zero point as words, clamp to a range as bytes.
#pragma once

namespace edgemeta::EM_NAMESPACE {
namespace {
#if defined(EM_ISA_AVX512)
typedef __m512i Packed;
inline Packed splat_words(int32_t x) { return _mm512_set1_epi16(static_cast<int16_t>(x)); }
inline Packed splat_bytes(int32_t x) { return _mm512_set1_epi8(static_cast<char>(x)); }
inline Packed add_words(Packed a, Packed b) { return _mm512_adds_epi16(a, b); }
inline Packed clamp_bytes(Packed x, Packed lo, Packed hi) { return _mm512_min_epu8(_mm512_max_epu8(x, lo), hi); }
#else
typedef __m256i Packed;
inline Packed splat_words(int32_t x) { return _mm256_set1_epi16(static_cast<int16_t>(x)); }
inline Packed splat_bytes(int32_t x) { return _mm256_set1_epi8(static_cast<char>(x)); }
inline Packed add_words(Packed a, Packed b) { return _mm256_adds_epi16(a, b); }
inline Packed clamp_bytes(Packed x, Packed lo, Packed hi) { return _mm256_min_epu8(_mm256_max_epu8(x, lo), hi); }
#endif
struct MovedByte {
  Packed zero;
  explicit MovedByte(int32_t given) : zero(splat_words(given)) {}
};
struct ByteRange : MovedByte {
  Packed lo, hi;
  ByteRange(int32_t least, int32_t greatest, int32_t given)
      : MovedByte(given), lo(splat_bytes(least)), hi(splat_bytes(greatest)) {}
};
inline Packed moved(Packed words, AnyByte) { return words; }
inline Packed moved(Packed words, const MovedByte& range) { return add_words(words, range.zero); }
inline Packed within(Packed bytes, AnyByte) { return bytes; }
inline Packed within(Packed bytes, const MovedByte&) { return bytes; }
inline Packed within(Packed bytes, const ByteRange& range) { return clamp_bytes(bytes, range.lo, range.hi); }
}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
