// Random words from counters: Philox 4x32 with ten rounds (Salmon et al. 2011, "Parallel random numbers: as easy as 1,
// 2, 3"), several counters at a time.
#pragma once

#include <stdint.h>

#include "../round.h"

namespace edgemeta::simulate::EM_NAMESPACE {
namespace {

// Lanes of 64 bits of which the lower 32 count: what a widening multiplication reads and gives. store_lower: those of
// two vectors, side by side.
#if defined(EM_ISA_AVX512)
using Lanes = __m512i;
INLINE Lanes from(uint64_t value) { return _mm512_set1_epi64(static_cast<int64_t>(value)); }
INLINE Lanes counting(uint64_t first) {
  return _mm512_add_epi64(from(first), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
}
INLINE Lanes product(Lanes a, Lanes b) { return _mm512_mul_epu32(a, b); }
INLINE Lanes upper(Lanes a) { return _mm512_srli_epi64(a, 32); }
INLINE Lanes exclusive_or(Lanes a, Lanes b, Lanes c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
INLINE void store_lower(uint32_t* p, const Lanes (&a)[2]) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  _mm512_storeu_si512(p, _mm512_permutex2var_epi32(a[0], even, a[1]));
}
#elif defined(EM_ISA_AVX2)
using Lanes = __m256i;
INLINE Lanes from(uint64_t value) { return _mm256_set1_epi64x(static_cast<int64_t>(value)); }
INLINE Lanes counting(uint64_t first) { return _mm256_add_epi64(from(first), _mm256_set_epi64x(3, 2, 1, 0)); }
INLINE Lanes product(Lanes a, Lanes b) { return _mm256_mul_epu32(a, b); }
INLINE Lanes upper(Lanes a) { return _mm256_srli_epi64(a, 32); }
INLINE Lanes exclusive_or(Lanes a, Lanes b, Lanes c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
INLINE void store_lower(uint32_t* p, const Lanes (&a)[2]) {
  const __m256 even = _mm256_shuffle_ps(_mm256_castsi256_ps(a[0]), _mm256_castsi256_ps(a[1]), 0x88);
  const __m256i sorted = _mm256_permute4x64_epi64(_mm256_castps_si256(even), 0xD8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), sorted);
}
#else
using Lanes = uint64_t;
INLINE Lanes from(uint64_t value) { return value; }
INLINE Lanes counting(uint64_t first) { return first; }
INLINE Lanes product(Lanes a, Lanes b) { return uint64_t{static_cast<uint32_t>(a)} * static_cast<uint32_t>(b); }
INLINE Lanes upper(Lanes a) { return a >> 32; }
INLINE Lanes exclusive_or(Lanes a, Lanes b, Lanes c) { return a ^ b ^ c; }
INLINE void store_lower(uint32_t* p, const Lanes (&a)[2]) {
  p[0] = static_cast<uint32_t>(a[0]);
  p[1] = static_cast<uint32_t>(a[1]);
}
#endif

// The keys of ten rounds.
struct Keys {
  explicit Keys(uint64_t seed) {
    auto k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
      first[round] = from(k0);
      second[round] = from(k1);
    }
  }
  Lanes first[10], second[10];
};

// Sixteen counters to a block of 64 words, two vectors of them at a time.
void random_words(const Random& random, uint64_t block, int64_t blocks, uint32_t* words) {
  constexpr int64_t counters = 16, lanes = sizeof(Lanes) / sizeof(uint64_t);
  const Lanes multiplier0 = from(0xD2511F53u), multiplier1 = from(0xCD9E8D57u);
  const Keys keys(random.seed);
  for (int64_t i = 0; i < blocks * counters; i += 2 * lanes) {
    const uint64_t number = block * counters + static_cast<uint64_t>(i);
    Lanes c0[2] = {counting(number), counting(number + lanes)}, c1[2] = {upper(c0[0]), upper(c0[1])};
    Lanes c2[2] = {from(random.tensor), from(random.tensor)}, c3[2] = {from(random.step), from(random.step)};
    for (int round = 0; round < 10; ++round)
      for (int part = 0; part < 2; ++part) {
        const Lanes product0 = product(c0[part], multiplier0), product1 = product(c2[part], multiplier1);
        c0[part] = exclusive_or(upper(product1), c1[part], keys.first[round]);
        c1[part] = product1;
        c2[part] = exclusive_or(upper(product0), c3[part], keys.second[round]);
        c3[part] = product0;
      }
    uint32_t* at = words + i / counters * 64 + i % counters;
    store_lower(at, c0);
    store_lower(at + counters, c1);
    store_lower(at + 2 * counters, c2);
    store_lower(at + 3 * counters, c3);
  }
}

}  // namespace
}  // namespace edgemeta::simulate::EM_NAMESPACE
