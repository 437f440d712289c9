// Finds a float32 line that equals an integer step function, and proves it.
//
// A multiplier's result is a non-decreasing step function of the accumulator x: it is defined by the least x that gives
// each k, T[k]. A line with scale >= 0 does not decrease either, as every rounding preserves the order. So the two are
// equal on all 2**32 inputs if, for every k, the line is below k at T[k] - 1 and not below k at T[k].
// A table has only 256 inputs, and all of them are checked.
#include <cmath>
#include <limits>

#include "requantize.h"

namespace edgemeta {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int32_t>::min(), kGreatest = std::numeric_limits<int32_t>::max();

// floor(a + b), exact: the rounding error of the sum (Knuth's two-sum) decides if the sum is a whole number.
double floor_of_sum(double a, double b) {
  const double sum = a + b, b_part = sum - a;
  const double error = (a - (sum - b_part)) + (b - b_part);
  const double whole = std::floor(sum);
  return sum == whole && error < 0 ? whole - 1 : whole;
}

// The kernel's computation. The product of two floats is exact in double.
int32_t at_line(const Line& line, int32_t x, int32_t lo, int32_t hi) {
  const float converted = static_cast<float>(x);
  const float rest = std::fma(converted, line.scale_rest, line.offset);
  const double value = floor_of_sum(double{converted} * line.scale, rest);
  return static_cast<int32_t>(std::fmin(std::fmax(value, lo), hi));
}

// Least x with (x * multiplier + half) >> shift >= k, for multiplier > 0, limited to the range of int32 and one beyond.
int64_t threshold(int32_t k, int32_t multiplier, int32_t shift) {
  const __int128 half = shift > 0 ? __int128{1} << (shift - 1) : 0;
  const __int128 needed = k * (__int128{1} << shift) - half;
  __int128 x = needed / multiplier;
  if (x * multiplier < needed) ++x;
  if (x > kGreatest) return kGreatest + 1;
  return x < kLeast ? kLeast : static_cast<int64_t>(x);
}

struct Thresholds {
  int32_t lo, count;
  int64_t at[256];  // of k = lo + 1 .. lo + count
};

bool equals_steps(const Line& line, const Thresholds& steps) {
  const int32_t lo = steps.lo, hi = lo + steps.count;
  for (int32_t i = 0; i < steps.count; ++i) {
    const int32_t k = lo + 1 + i;
    const int64_t t = steps.at[i];
    if (t <= kGreatest && at_line(line, static_cast<int32_t>(t), lo, hi) < k) return false;
    if (t > kLeast && at_line(line, static_cast<int32_t>(t - 1), lo, hi) >= k) return false;
  }
  return true;
}

// The offset in the middle of those that fit `scale`.
double middle_offset(double scale, const Thresholds& steps) {
  double least = -1e30, greatest = 1e30;
  for (int32_t i = 0; i < steps.count; ++i) {
    const double k = steps.lo + 1 + i;
    const int64_t t = steps.at[i];
    if (t <= kGreatest) least = std::fmax(least, k - scale * static_cast<double>(t));
    if (t > kLeast) greatest = std::fmin(greatest, k - scale * static_cast<double>(t - 1));
  }
  return (least + greatest) / 2;
}

}  // namespace

bool find_line(int32_t multiplier, int32_t shift, int32_t lo, int32_t hi, Line& line) {
  if (multiplier == 0) {  // round(0, shift) = 0
    line = {0.0f, 0.0f, 0.0f};
    return true;
  }
  Thresholds steps{lo, hi - lo, {}};
  for (int32_t i = 0; i < steps.count; ++i) steps.at[i] = threshold(lo + 1 + i, multiplier, shift);
  const double scale = std::ldexp(double(multiplier), -shift);
  // The kernel converts to int32 before it clamps: every value must fit.
  if (scale > 0.5) return false;
  line.scale = static_cast<float>(scale);
  line.scale_rest = static_cast<float>(scale - double{line.scale});
  line.offset = static_cast<float>(middle_offset(scale, steps));
  return std::fabs(line.offset) < 1e6f && equals_steps(line, steps);
}

// Entry y at t requires y <= scale * t + offset (unless y is lo) and scale * t + offset < y + 1 (unless y is hi). Each
// pair of a lower and an upper bound limits the scale; any scale within all limits leaves room for an offset.
bool find_line(const uint8_t* table, int32_t zero, int32_t lo, int32_t hi, Line& line) {
  double least = -512, greatest = 512;
  for (int32_t t = 0; t < 256; ++t) {
    const double y = table[t] - zero;
    if (y == lo) continue;
    for (int32_t u = 0; u < 256; ++u) {
      const double below = table[u] - zero + 1.0;
      if (below > hi || u == t) continue;
      const double slope = (y - below) / (t - u);
      if (t > u)
        least = std::fmax(least, slope);
      else
        greatest = std::fmin(greatest, slope);
    }
  }
  if (least > greatest) return false;
  const float scale = static_cast<float>((least + greatest) / 2);
  double offset_least = -1e5, offset_greatest = 1e5;
  for (int32_t t = 0; t < 256; ++t) {
    const double y = table[t] - zero, rise = double{scale} * (t - 128);
    if (y != lo) offset_least = std::fmax(offset_least, y - rise);
    if (y != hi) offset_greatest = std::fmin(offset_greatest, y + 1.0 - rise);
  }
  line = {scale, 0.0f, static_cast<float>((offset_least + offset_greatest) / 2)};
  for (int32_t t = 0; t < 256; ++t)
    if (at_line(line, t - 128, lo, hi) != table[t] - zero) return false;
  return true;
}

}  // namespace edgemeta
