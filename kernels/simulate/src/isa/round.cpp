// Rounding of arrays, element by element and without branches: the compiler makes vectors of the loops. Compiled once
// per instruction set, in a namespace of its own.
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

#include "errors.h"
#include "philox.h"
#include "steps.h"

namespace edgemeta::simulate::EM_NAMESPACE {
namespace {

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
INLINE void round_together(const float* x, float* y, const uint32_t* __restrict__ words, const Rule& rule,
                           int64_t first, uint32_t* __restrict__ flags) {
  const Grid<rounding, kind> grid(rule.rounding);
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
    const float result = grid.round(magnitude, sign >> 31, rounding == EM_STOCHASTIC ? words[i] : 0);
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

template <int rounding>
void round_grid(const Run& run, const Rule& rule) {
  switch (steps_of(rule.rounding)) {
    case kAny: return round_by<rounding, kAny>(run, rule);
    case kAlike: return round_by<rounding, kAlike>(run, rule);
    case kFloating: return round_by<rounding, kFloating>(run, rule);
    case kShort: return round_by<rounding, kShort>(run, rule);
  }
}

void round_elements(const Run& run, const Rule& rule) {
  switch (rule.rounding.rounding) {
    case EM_NEAREST_EVEN: return round_grid<EM_NEAREST_EVEN>(run, rule);
    case EM_HALF_UP: return round_grid<EM_HALF_UP>(run, rule);
    case EM_TOWARDS_ZERO: return round_grid<EM_TOWARDS_ZERO>(run, rule);
    default: return round_grid<EM_STOCHASTIC>(run, rule);
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

const Kernels kernels = {round_elements, random_words, keep_inside, finite_range, square_errors};

}  // namespace edgemeta::simulate::EM_NAMESPACE
