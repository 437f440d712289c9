// Square errors of rounding a row to integers with each of many scales.
#pragma once

#include <stdint.h>

namespace edgemeta::simulate::EM_NAMESPACE {
namespace {

constexpr int64_t kLanes = 16;  // sums beside each other, so that every instruction set adds in the same order

// v to the nearest integer, ties to even, for |v| < 2**22: adding 1.5 * 2**23 leaves no bit for a fraction.
INLINE float to_nearest(float v) {
  constexpr float shift = 12582912.0f;
  return (v + shift) - shift;
}

// errors[j] = sum over i of (y - x[i])**2 with y = scale[j] clamp(nearest(x[i] / scale[j]), lowest[j], highest[j]): in
// double, element i to lane i % 16, then the lanes in order. Limits are integers, |limit| < 2**22, so it is the same to
// limit first; elements are finite.
void square_errors(const float* x, int64_t count, const Candidates& of, double* errors) {
  for (int64_t j = 0; j < of.count; ++j) {
    const float scale = of.scale[j], low = of.lowest[j], high = of.highest[j];
    double lanes[kLanes] = {};
    const auto add = [&](const float* from) {
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        const float divided = from[lane] / scale;
        const float above = divided > low ? divided : low;
        const float y = to_nearest(above < high ? above : high) * scale;
        const double error = static_cast<double>(y) - static_cast<double>(from[lane]);
        lanes[lane] += error * error;
      }
    };
    int64_t i = 0;
    for (; i + kLanes <= count; i += kLanes) add(x + i);
    if (i < count) {
      float rest[kLanes] = {};  // a zero has no error
      memcpy(rest, x + i, static_cast<size_t>(count - i) * sizeof(float));
      add(rest);
    }
    double sum = 0;
    for (const double lane : lanes) sum += lane;
    errors[j] = sum;
  }
}

}  // namespace
}  // namespace edgemeta::simulate::EM_NAMESPACE
