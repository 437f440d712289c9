// Rounding by integer operations on the pattern, element by element and without branches: the compiler makes vectors of
// the loops. Compiled once per instruction set, in a namespace of its own.
//
// A magnitude is M 2**(e - 150), e its biased exponent (1 for subnormals). Its low s bits are dropped: K = M >> s is its
// number of steps 2**q, and F the rest in units of 2**-32 steps. (rounding.py states the same in 64 bits.)
#include "../round.h"

#include <string.h>

#if defined(EM_ISA_AVX512)
#define EM_NAMESPACE avx512
#elif defined(EM_ISA_AVX2)
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

template <int rounding>
INLINE float rounded_magnitude(uint32_t magnitude, uint32_t negative, uint32_t word, int32_t mantissa, int32_t quantum) {
  const auto code = static_cast<int32_t>(magnitude >> 23);
  const int32_t biased = greater(code, 1);
  const uint32_t integer = (magnitude & (kHidden - 1)) | (code > 0 ? kHidden : 0);
  const int32_t q = greater(biased - 127 - mantissa, quantum);
  const int32_t step = greater(q, biased - 150);  // exact values keep their last bit
  const int32_t dropped = step - (biased - 150);
  uint32_t steps = integer >> smaller(dropped, 31);
  const uint32_t upper = (integer << 1) << (31 - smaller(dropped, 31));
  const uint32_t lower = integer >> greater(smaller(dropped - 32, 31), 0);
  const uint32_t fraction = dropped < 32 ? upper : lower;
  const uint32_t sum = fraction + added<rounding>(steps, negative, word);
  steps += sum < fraction ? 1 : 0;
  return static_cast<float>(static_cast<int32_t>(steps)) * power_of_two(step);
}

// each: scale and limits have an entry for each element.
template <int rounding, bool scaled, bool each>
void round_run(const Run& run, const Rule& rule) {
  const int32_t mantissa = rule.rounding.mantissa, quantum = rule.rounding.quantum;
  const float* __restrict__ scales = rule.scale;
  const float* __restrict__ lows = rule.lowest;
  const float* __restrict__ highs = rule.highest;
  const float scale0 = scaled ? scales[0] : 1.0f, low0 = lows[0], high0 = highs[0];
  const uint32_t special = rule.rounding.beyond == EM_NAN ? kInfinity | kQuiet : kInfinity;
  const bool saturates = rule.rounding.beyond == EM_SATURATE;
  uint8_t flags[kBlock];
  uint8_t* __restrict__ inside = run.inside ? run.inside : flags;
  const uint32_t* __restrict__ words = run.words;
  const float* x = run.x;
  float* y = run.y;
  const int64_t count = run.count;
#pragma GCC ivdep  // x and y are the same array, or do not overlap
  for (int64_t i = 0; i < count; ++i) {
    const float scale = each && scaled ? scales[i] : scale0;
    const uint32_t pattern = pattern_of(scaled ? x[i] / scale : x[i]);
    const uint32_t sign = pattern & kSign, magnitude = pattern ^ sign;
    const float result = rounded_magnitude<rounding>(magnitude, sign >> 31, rounding == EM_STOCHASTIC ? words[i] : 0,
                                                     mantissa, quantum);
    const float low = each ? lows[i] : low0, high = each ? highs[i] : high0;
    const float limit = sign ? -low : high;
    const bool over = result > limit;
    const bool keeps_limit = saturates | ((rounding == EM_TOWARDS_ZERO) & (magnitude < kInfinity));
    const uint32_t limited = over ? (keeps_limit ? pattern_of(limit) : special) : pattern_of(result);
    const float signed_result = value_of((magnitude > kInfinity ? magnitude | kQuiet : limited) | sign);
    inside[i] = static_cast<uint8_t>(!over | (magnitude > kInfinity));
    y[i] = scaled ? signed_result * scale : signed_result;
  }
}

template <int rounding>
void round_by(const Run& run, const Rule& rule) {
  if (rule.scale == nullptr) return rule.each ? round_run<rounding, false, true>(run, rule)
                                              : round_run<rounding, false, false>(run, rule);
  return rule.each ? round_run<rounding, true, true>(run, rule) : round_run<rounding, true, false>(run, rule);
}

void round_elements(const Run& run, const Rule& rule) {
  switch (rule.rounding.rounding) {
    case EM_NEAREST_EVEN: return round_by<EM_NEAREST_EVEN>(run, rule);
    case EM_HALF_UP: return round_by<EM_HALF_UP>(run, rule);
    case EM_TOWARDS_ZERO: return round_by<EM_TOWARDS_ZERO>(run, rule);
    default: return round_by<EM_STOCHASTIC>(run, rule);
  }
}

// Philox 4x32 with ten rounds, sixteen counters to a block of 64 words.
void random_words(const Random& random, uint64_t block, int64_t blocks, uint32_t* words) {
  constexpr int64_t lanes = 16, most = kBlock / 4;
  uint32_t word[4][most];
  const auto key0 = static_cast<uint32_t>(random.seed), key1 = static_cast<uint32_t>(random.seed >> 32);
  const uint32_t tensor = random.tensor, step = random.step;
  const int64_t counters = blocks * lanes;
  for (int64_t i = 0; i < counters; ++i) {
    const uint64_t number = block * lanes + static_cast<uint64_t>(i);
    auto c0 = static_cast<uint32_t>(number), c1 = static_cast<uint32_t>(number >> 32), c2 = tensor, c3 = step;
#pragma GCC unroll 10
    for (uint32_t round = 0; round < 10; ++round) {
      const uint64_t product0 = uint64_t{0xD2511F53u} * c0, product1 = uint64_t{0xCD9E8D57u} * c2;
      c0 = static_cast<uint32_t>(product1 >> 32) ^ c1 ^ (key0 + round * 0x9E3779B9u);
      c1 = static_cast<uint32_t>(product1);
      c2 = static_cast<uint32_t>(product0 >> 32) ^ c3 ^ (key1 + round * 0xBB67AE85u);
      c3 = static_cast<uint32_t>(product0);
    }
    word[0][i] = c0;
    word[1][i] = c1;
    word[2][i] = c2;
    word[3][i] = c3;
  }
  for (int64_t i = 0; i < counters; i += lanes)
    for (int k = 0; k < 4; ++k) memcpy(words + 4 * i + k * lanes, word[k] + i, lanes * sizeof(uint32_t));
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

void keep_inside(const float* x, float* y, const uint8_t* inside, int64_t count) {
#pragma GCC ivdep  // x and y are the same array, or do not overlap
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t bit = inside[i / 8] >> (i % 8) & 1;
    y[i] = value_of(pattern_of(x[i]) & (0u - bit));
  }
}

}  // namespace

const Kernels kernels = {round_elements, random_words, keep_inside, finite_range};

}  // namespace edgemeta::simulate::EM_NAMESPACE
