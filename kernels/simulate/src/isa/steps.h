// Rounding of a magnitude to the steps of a grid, by integer operations on its pattern, without branches.
//
// A magnitude is M 2**(e - 150), e its biased exponent (1 for subnormals). Its low s bits are dropped: K = M >> s is
// its number of steps 2**q, and F the rest in units of 2**-32 steps. (rounding.py states the same in 64 bits.)
#pragma once

#include <stdint.h>
#include <string.h>

#include "../round.h"

namespace edgemeta::simulate::EM_NAMESPACE {
namespace {

constexpr uint32_t kSign = 0x80000000u, kInfinity = 0x7F800000u, kQuiet = 0x00400000u, kHidden = 0x00800000u;
constexpr uint32_t kSquareOfOne = 0x7F000000u;  // less the pattern of 2**t, it is that of 2**-t

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

// What a grid allows, fastest last. kAny: nothing. kAlike: all its steps are alike. kFloating: they follow the
// exponent, and each is a normal float32. kShort: it has the exponents of float32, and fewer bits of the mantissa.
enum Steps { kAny, kAlike, kFloating, kShort };

Steps steps_of(const em_rounding& grid) {
  constexpr int32_t range = 60;  // the conversions below neither overflow nor lose a bit of F
  const int32_t mantissa = grid.mantissa, quantum = grid.quantum;
  if (mantissa >= 24) return quantum >= -range && quantum <= range ? kAlike : kAny;
  if (mantissa == 0 || mantissa == 23) return kAny;
  if (quantum == -126 - mantissa) return kShort;
  return quantum >= -126 && quantum <= 126 ? kFloating : kAny;
}

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

// The same by conversions of floats to integers. inverse: 1 / unit. A magnitude of 2**25 steps and more is beyond every
// limit: limits are at most 2**24 steps that are alike, and only infinity and NaN have 2**25 that follow the exponent.
INLINE Split split_by(float unit, float inverse, uint32_t magnitude) {
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

// A grid, as its magnitudes are rounded by one of the four ways.
template <int rounding, Steps kind>
struct Grid {
  explicit Grid(const em_rounding& grid)
      : mantissa(grid.mantissa), quantum(grid.quantum), unit(power_of_two(quantum)), inverse(power_of_two(-quantum)) {}

  // negative: 1 for a negative number, whose magnitude this is; word: for stochastic rounding.
  INLINE float round(uint32_t magnitude, uint32_t negative, uint32_t word) const {
    if constexpr (kind == kAny) return rounded<rounding>(split(magnitude, mantissa, quantum), negative, word);
    if constexpr (kind == kAlike) return rounded<rounding>(split_by(unit, inverse, magnitude), negative, word);
    if constexpr (kind == kFloating) {
      const auto follows = static_cast<int32_t>(magnitude & kInfinity) - (mantissa << 23);
      const auto step = static_cast<uint32_t>(greater(follows, static_cast<int32_t>(pattern_of(unit))));
      return rounded<rounding>(split_by(value_of(step), value_of(kSquareOfOne - step), magnitude), negative, word);
    }
    // A carry out of the mantissa goes on into the exponent, as it should. F has `dropped` bits, so what is added to it
    // needs no more.
    const int32_t dropped = 23 - mantissa;
    const uint32_t lowest = magnitude >> dropped & 1;
    const uint32_t sum = magnitude + (added<rounding>(lowest, negative, word) >> (32 - dropped));
    return value_of(sum >> dropped << dropped);
  }

 private:
  int32_t mantissa, quantum;
  float unit, inverse;
};

}  // namespace
}  // namespace edgemeta::simulate::EM_NAMESPACE
