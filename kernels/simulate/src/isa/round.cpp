// Rounding by integer operations on the pattern, element by element and without branches: the compiler makes vectors of
// the loops. Compiled once per instruction set, in a namespace of its own.
//
// A magnitude is M 2**(e - 150), e its biased exponent (1 for subnormals). Its low s bits are dropped: K = M >> s is
// its number of steps 2**q, and F the rest in units of 2**-32 steps. (rounding.py states the same in 64 bits.)
#include "../round.h"

#include <string.h>

#if defined(EM_ISA_AVX512)
#include <immintrin.h>
#define EM_NAMESPACE avx512
#elif defined(EM_ISA_AVX2)
#include <immintrin.h>
#define EM_NAMESPACE avx2
#else
#define EM_NAMESPACE portable
#endif

#define INLINE __attribute__((always_inline)) inline

namespace edgemeta::simulate::EM_NAMESPACE {
namespace {

constexpr uint32_t kSign = 0x80000000u, kInfinity = 0x7F800000u, kQuiet = 0x00400000u, kHidden = 0x00800000u;

INLINE uint32_t pattern_of(float value) {
  uint32_t pattern;
  memcpy(&pattern, &value, 4);
  return pattern;
}

INLINE float value_of(uint32_t pattern) {
  float value;
  memcpy(&value, &pattern, 4);
  return value;
}

INLINE int32_t smaller(int32_t a, int32_t b) { return a < b ? a : b; }
INLINE int32_t greater(int32_t a, int32_t b) { return a > b ? a : b; }

// What is added to F: K becomes K + 1 where that carries.
template <int rounding>
INLINE uint32_t added(uint32_t steps, uint32_t negative, uint32_t word) {
  constexpr uint32_t half = 0x80000000u;
  if (rounding == EM_NEAREST_EVEN) return half - 1 + (steps & 1);
  if (rounding == EM_HALF_UP) return half - negative;
  if (rounding == EM_STOCHASTIC) return word;
  return 0;
}

// 2**q for q = -149 .. 127; patterns beyond are never used.
INLINE float power_of_two(int32_t q) {
  const uint32_t normal = static_cast<uint32_t>(q + 127) << 23, subnormal = 1u << greater(smaller(q + 149, 31), 0);
  return value_of(q >= -126 ? normal : subnormal);
}

// How a grid is rounded to: by the definition; or, where all its steps are alike, by the conversions of floats to
// integers, which give the same K and F.
enum Steps { kAny, kAlike };

struct Split {
  uint32_t steps, fraction;
  float unit;  // value of a step
};

INLINE Split split(uint32_t magnitude, int32_t mantissa, int32_t quantum) {
  const auto code = static_cast<int32_t>(magnitude >> 23);
  const int32_t biased = greater(code, 1);
  const uint32_t integer = (magnitude & (kHidden - 1)) | (code > 0 ? kHidden : 0);
  const int32_t q = greater(biased - 127 - mantissa, quantum);
  const int32_t step = greater(q, biased - 150);  // exact values keep their last bit
  const int32_t dropped = step - (biased - 150);
  const uint32_t upper = (integer << 1) << (31 - smaller(dropped, 31));
  const uint32_t lower = integer >> greater(smaller(dropped - 32, 31), 0);
  return {integer >> smaller(dropped, 31), dropped < 32 ? upper : lower, power_of_two(step)};
}

// unit: of a step; inverse: 1 / unit. A magnitude of 2**25 steps and more is beyond every limit (at most 2**24).
INLINE Split split_alike(uint32_t magnitude, float unit, float inverse) {
  constexpr float most = 33554432.0f;
  const float number = value_of(magnitude) * inverse, bounded = number < most ? number : most;
  const auto whole = static_cast<int32_t>(bounded);
  const float rest = bounded - static_cast<float>(whole);
  return {static_cast<uint32_t>(whole), static_cast<uint32_t>(rest * 4294967296.0f), unit};
}

template <int rounding>
INLINE float rounded(const Split& at, uint32_t negative, uint32_t word) {
  const uint32_t sum = at.fraction + added<rounding>(at.steps, negative, word);
  const uint32_t steps = at.steps + (sum < at.fraction ? 1 : 0);
  return static_cast<float>(static_cast<int32_t>(steps)) * at.unit;
}

enum Scaling { kNone, kPowerOfTwo, kDivision };

// What a scale of 2**t is multiplied by instead of divided: 2**-t, with the same bits. 0 for another scale.
INLINE float inverse_of(float scale) {
  const uint32_t pattern = pattern_of(scale), exponent = pattern >> 23;
  const bool fits = (pattern & (kHidden - 1)) == 0 && exponent > 0 && exponent < 254;
  return fits ? value_of((254 - exponent) << 23) : 0.0f;
}

constexpr int64_t kTogether = 64;  // elements whose flags make a word of bits

// Bit i is set where flags[i] is not 0.
#if defined(EM_ISA_AVX512)
INLINE uint64_t packed(const uint32_t* flags) {
  uint64_t bits = 0;
  for (int64_t i = 0; i < kTogether; i += 16) {
    const __m512i part = _mm512_loadu_si512(flags + i);
    bits |= static_cast<uint64_t>(_mm512_test_epi32_mask(part, part)) << i;
  }
  return bits;
}
#elif defined(EM_ISA_AVX2)
INLINE uint64_t packed(const uint32_t* flags) {
  uint64_t bits = 0;
  for (int64_t i = 0; i < kTogether; i += 8) {
    const __m256i part = _mm256_slli_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(flags + i)), 31);
    bits |= static_cast<uint64_t>(_mm256_movemask_ps(_mm256_castsi256_ps(part))) << i;
  }
  return bits;
}
#else
INLINE uint64_t packed(const uint32_t* flags) {
  uint64_t bits = 0;
  for (int64_t i = 0; i < kTogether; ++i) bits |= static_cast<uint64_t>(flags[i]) << i;
  return bits;
}
#endif

// each: scale and limits have an entry for each element.
template <int rounding, Scaling scaling, bool each, Steps kind>
INLINE void round_together(const float* x, float* y, const uint32_t* __restrict__ words, const Rule& rule, int64_t first,
                           uint32_t* __restrict__ flags) {
  const int32_t mantissa = rule.rounding.mantissa, quantum = rule.rounding.quantum;
  const float unit = power_of_two(quantum), inverse_unit = power_of_two(-quantum);
  const float* __restrict__ scales = each && scaling == kDivision ? rule.scale + first : rule.scale;
  const float* __restrict__ lows = each ? rule.lowest + first : rule.lowest;
  const float* __restrict__ highs = each ? rule.highest + first : rule.highest;
  const float scale0 = scaling == kNone ? 1.0f : scales[0], inverse = inverse_of(scale0);
  const float low0 = lows[0], high0 = highs[0];
  const uint32_t special = rule.rounding.beyond == EM_NAN ? kInfinity | kQuiet : kInfinity;
  const uint32_t saturates = rule.rounding.beyond == EM_SATURATE;
#pragma GCC ivdep  // x and y are the same array, or do not overlap
  for (int64_t i = 0; i < kTogether; ++i) {
    const float scale = each && scaling == kDivision ? scales[i] : scale0;
    const float divided = scaling == kNone ? x[i] : scaling == kPowerOfTwo ? x[i] * inverse : x[i] / scale;
    const uint32_t pattern = pattern_of(divided);
    const uint32_t sign = pattern & kSign, magnitude = pattern ^ sign;
    const Split at = kind == kAlike ? split_alike(magnitude, unit, inverse_unit) : split(magnitude, mantissa, quantum);
    const float result = rounded<rounding>(at, sign >> 31, rounding == EM_STOCHASTIC ? words[i] : 0);
    const float low = each ? lows[i] : low0, high = each ? highs[i] : high0;
    const float limit = sign ? -low : high;
    const uint32_t over = result > limit, is_nan = magnitude > kInfinity;
    const uint32_t keeps_limit = saturates | (rounding == EM_TOWARDS_ZERO ? magnitude < kInfinity : 0u);
    const uint32_t beyond = keeps_limit ? pattern_of(limit) : special;
    const uint32_t limited = over ? beyond : pattern_of(result);
    const float signed_result = value_of((is_nan ? magnitude | kQuiet : limited) | sign);
    flags[i] = (over ^ 1u) | is_nan;
    y[i] = scaling == kNone ? signed_result : signed_result * scale;
  }
}

template <int rounding, Scaling scaling, bool each, Steps kind>
void round_run(const Run& run, const Rule& rule) {
  uint32_t flags[kTogether];
  int64_t i = 0;
  for (; i + kTogether <= run.count; i += kTogether) {
    round_together<rounding, scaling, each, kind>(run.x + i, run.y + i, run.words + i, rule, i, flags);
    const uint64_t bits = packed(flags);
    if (run.inside) memcpy(run.inside + i / 8, &bits, 8);
  }
  const int64_t rest = run.count - i;
  if (rest == 0) return;
  float values[kTogether] = {};
  memcpy(values, run.x + i, static_cast<size_t>(rest) * sizeof(float));
  round_together<rounding, scaling, each, kind>(values, values, run.words + i, rule, i, flags);
  memcpy(run.y + i, values, static_cast<size_t>(rest) * sizeof(float));
  const uint64_t bits = packed(flags) & ((uint64_t{1} << rest) - 1);
  if (run.inside) memcpy(run.inside + i / 8, &bits, static_cast<size_t>(rest + 7) / 8);
}

template <int rounding, Steps kind>
void round_by(const Run& run, const Rule& rule) {
  if (rule.each && rule.scale) return round_run<rounding, kDivision, true, kind>(run, rule);
  if (rule.each) return round_run<rounding, kNone, true, kind>(run, rule);
  if (!rule.scale || *rule.scale == 1.0f) return round_run<rounding, kNone, false, kind>(run, rule);
  if (inverse_of(*rule.scale) != 0.0f) return round_run<rounding, kPowerOfTwo, false, kind>(run, rule);
  round_run<rounding, kDivision, false, kind>(run, rule);
}

// Whether all steps up to the greatest limit are alike, and the conversions neither overflow nor lose a bit of F.
bool steps_are_alike(const em_rounding& rounding) {
  constexpr int32_t range = 60;
  return rounding.mantissa >= 24 && rounding.quantum >= -range && rounding.quantum <= range;
}

template <int rounding>
void round_grid(const Run& run, const Rule& rule) {
  if (steps_are_alike(rule.rounding)) return round_by<rounding, kAlike>(run, rule);
  round_by<rounding, kAny>(run, rule);
}

void round_elements(const Run& run, const Rule& rule) {
  switch (rule.rounding.rounding) {
    case EM_NEAREST_EVEN: return round_grid<EM_NEAREST_EVEN>(run, rule);
    case EM_HALF_UP: return round_grid<EM_HALF_UP>(run, rule);
    case EM_TOWARDS_ZERO: return round_grid<EM_TOWARDS_ZERO>(run, rule);
    default: return round_grid<EM_STOCHASTIC>(run, rule);
  }
}

// Lanes of 64 bits of which the lower 32 count: what a widening multiplication reads and gives.
#if defined(EM_ISA_AVX512)
using Lanes = __m512i;
INLINE Lanes from(uint64_t value) { return _mm512_set1_epi64(static_cast<int64_t>(value)); }
INLINE Lanes counting(uint64_t first) {
  return _mm512_add_epi64(from(first), _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
}
INLINE Lanes product(Lanes a, Lanes b) { return _mm512_mul_epu32(a, b); }
INLINE Lanes upper(Lanes a) { return _mm512_srli_epi64(a, 32); }
INLINE Lanes exclusive_or(Lanes a, Lanes b, Lanes c) { return _mm512_ternarylogic_epi64(a, b, c, 0x96); }
INLINE void store_lower(uint32_t* p, Lanes a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi64_epi32(a));
}
#elif defined(EM_ISA_AVX2)
using Lanes = __m256i;
INLINE Lanes from(uint64_t value) { return _mm256_set1_epi64x(static_cast<int64_t>(value)); }
INLINE Lanes counting(uint64_t first) { return _mm256_add_epi64(from(first), _mm256_set_epi64x(3, 2, 1, 0)); }
INLINE Lanes product(Lanes a, Lanes b) { return _mm256_mul_epu32(a, b); }
INLINE Lanes upper(Lanes a) { return _mm256_srli_epi64(a, 32); }
INLINE Lanes exclusive_or(Lanes a, Lanes b, Lanes c) { return _mm256_xor_si256(_mm256_xor_si256(a, b), c); }
INLINE void store_lower(uint32_t* p, Lanes a) {
  const __m256i even = _mm256_permutevar8x32_epi32(a, _mm256_set_epi32(7, 5, 3, 1, 6, 4, 2, 0));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(even));
}
#else
using Lanes = uint64_t;
INLINE Lanes from(uint64_t value) { return value; }
INLINE Lanes counting(uint64_t first) { return first; }
INLINE Lanes product(Lanes a, Lanes b) { return uint64_t{static_cast<uint32_t>(a)} * static_cast<uint32_t>(b); }
INLINE Lanes upper(Lanes a) { return a >> 32; }
INLINE Lanes exclusive_or(Lanes a, Lanes b, Lanes c) { return a ^ b ^ c; }
INLINE void store_lower(uint32_t* p, Lanes a) { *p = static_cast<uint32_t>(a); }
#endif

// Philox 4x32 with ten rounds, sixteen counters to a block of 64 words.
void random_words(const Random& random, uint64_t block, int64_t blocks, uint32_t* words) {
  constexpr int64_t counters = 16, lanes = sizeof(Lanes) / sizeof(uint64_t);
  const Lanes multiplier0 = from(0xD2511F53u), multiplier1 = from(0xCD9E8D57u);
  for (int64_t i = 0; i < blocks * counters; i += lanes) {
    const Lanes number = counting(block * counters + static_cast<uint64_t>(i));
    Lanes c0 = number, c1 = upper(number), c2 = from(random.tensor), c3 = from(random.step);
    auto k0 = static_cast<uint32_t>(random.seed), k1 = static_cast<uint32_t>(random.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      const Lanes product0 = product(c0, multiplier0), product1 = product(c2, multiplier1);
      c0 = exclusive_or(upper(product1), c1, from(k0));
      c1 = product1;
      c2 = exclusive_or(upper(product0), c3, from(k1));
      c3 = product0;
      k0 += 0x9E3779B9u;
      k1 += 0xBB67AE85u;
    }
    uint32_t* at = words + i / counters * 64 + i % counters;
    store_lower(at, c0);
    store_lower(at + counters, c1);
    store_lower(at + 2 * counters, c2);
    store_lower(at + 3 * counters, c3);
  }
}

// Patterns as integers that are ordered as their values are; the zeros are neighbours.
INLINE int32_t ordered(uint32_t pattern) {
  const auto value = static_cast<int32_t>(pattern);
  return value ^ ((value >> 31) & 0x7FFFFFFF);
}

INLINE float from_ordered(int32_t value) {
  return value_of(static_cast<uint32_t>(value ^ ((value >> 31) & 0x7FFFFFFF)));
}

void finite_range(const float* x, int64_t count, float* range) {
  constexpr int32_t most = 0x7FFFFFFF;
  int32_t least = most, greatest = -most;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t pattern = pattern_of(x[i]);
    const int32_t unless_finite = (pattern & ~kSign) < kInfinity ? 0 : -1, value = ordered(pattern);
    least = smaller(least, (value & ~unless_finite) | (most & unless_finite));
    greatest = greater(greatest, (value & ~unless_finite) | (-most & unless_finite));
  }
  range[0] = least <= greatest ? from_ordered(least) : 0;
  range[1] = least <= greatest ? from_ordered(greatest) : 0;
}

// x where bit is 1, and 0 where it is 0.
INLINE float kept(float x, uint64_t bit) { return value_of(pattern_of(x) & (0u - static_cast<uint32_t>(bit))); }

void keep_inside(const float* x, float* y, const uint8_t* inside, int64_t count) {
  int64_t i = 0;
  for (; i + 64 <= count; i += 64) {
    uint64_t bits;
    memcpy(&bits, inside + i / 8, 8);
    if (bits == ~uint64_t{0}) {  // nearly always
      memmove(y + i, x + i, 64 * sizeof(float));
      continue;
    }
    for (int64_t j = 0; j < 64; ++j) y[i + j] = kept(x[i + j], bits >> j & 1);
  }
  for (; i < count; ++i) y[i] = kept(x[i], inside[i / 8] >> (i % 8) & 1u);
}

}  // namespace

const Kernels kernels = {round_elements, random_words, keep_inside, finite_range};

}  // namespace edgemeta::simulate::EM_NAMESPACE
