// Finds a float32 line that equals an integer step function, and proves it.
//
// A multiplier's result is a non-decreasing step function of the accumulator x: it is defined by the least x that gives
// each k, T[k]. A line with scale >= 0 does not decrease either, as every rounding preserves the order. So the two are
// equal on all 2**32 inputs if, for every k, the line is below k at T[k] - 1 and not below k at T[k]. With the
// complement ~x in place of x both never increase, and the line's scale is negative.
// A table has only 256 inputs, and all of them are checked. A line in integers, for kernels without float rounding
// modes, is checked likewise.
#include <algorithm>
#include <cmath>
#include <cstdlib>
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

// The kernel's computation, before the clamp. The product of two floats is exact in double.
double value_at(const Line& line, float x, Lines rounding) {
  if (rounding == Lines::stepwise) {  // compiled with -ffp-contract=off
    const float rest = x * line.scale_rest + line.offset;
    const float value = x * line.scale + rest;
    return std::floor(value);
  }
  const float rest = std::fma(x, line.scale_rest, line.offset);
  if (rounding == Lines::nearest) return std::nearbyint(std::fma(x, line.scale, rest));
  return floor_of_sum(double{x} * line.scale, rest);
}

int32_t at_line(const Line& line, int32_t x, int32_t lo, int32_t hi, Lines rounding) {
  const double value = value_at(line, static_cast<float>(x), rounding);
  return static_cast<int32_t>(std::clamp<double>(value, lo, hi));
}

// Least x with (x * multiplier + half) >> shift >= k, for multiplier > 0, limited to the range of int32 and one beyond.
int64_t threshold(int32_t k, int32_t multiplier, int32_t shift) {
  int64_t needed = k;
  if (shift > 0) {
    const int64_t odd = 2 * int64_t{k} - 1;  // needed = odd * 2**(shift - 1), and |x * multiplier| < 2**62
    if (std::abs(odd) >= int64_t{1} << (63 - shift)) return odd > 0 ? kGreatest + 1 : kLeast;
    needed = odd * (int64_t{1} << (shift - 1));
  }
  int64_t x = needed / multiplier;
  if (x * multiplier < needed) ++x;
  if (x > kGreatest) return kGreatest + 1;
  return x < kLeast ? kLeast : x;
}

// floor(x) is x - 1/2, rounded to the nearest.
double before_rounding(Lines rounding) { return rounding == Lines::nearest ? 0.5 : 0.0; }

struct Thresholds {
  int32_t lo, count;
  int64_t at[256];  // of k = lo + 1 .. lo + count
};

bool equals_steps(const Line& line, const Thresholds& steps, Lines rounding, bool negated) {
  const int32_t lo = steps.lo, hi = lo + steps.count;
  const auto at = [&](int64_t t) {
    const auto x = static_cast<int32_t>(t);
    return at_line(line, negated ? ~x : x, lo, hi, rounding);
  };
  for (int32_t i = 0; i < steps.count; ++i) {
    const int32_t k = lo + 1 + i;
    const int64_t t = steps.at[i];
    if (t <= kGreatest && at(t) < k) return false;
    if (t > kLeast && at(t - 1) >= k) return false;
  }
  return true;
}

// The offset in the middle of those that fit `scale`.
double middle_offset(double scale, const Thresholds& steps) {
  double least = -1e30, greatest = 1e30;
  for (int32_t i = 0; i < steps.count; ++i) {
    const double k = steps.lo + 1 + i;
    const int64_t t = steps.at[i];
    if (t <= kGreatest) least = std::max(least, k - scale * static_cast<double>(t));
    if (t > kLeast) greatest = std::min(greatest, k - scale * static_cast<double>(t - 1));
  }
  return (least + greatest) / 2;
}

// Entry y at t requires y <= scale * t + offset (unless y is lo) and scale * t + offset < y + 1 (unless y is hi). Each
// pair of a lower and an upper bound limits the scale; any scale within all limits leaves room for an offset. This is
// the middle one, false if there is none.
bool middle_scale(const int32_t* entries, int32_t lo, int32_t hi, double& scale) {
  double least = -512, greatest = 512;
  for (int32_t t = 0; t < 256; ++t) {
    const double y = entries[t];
    if (y == lo) continue;
    for (int32_t u = 0; u < 256; ++u) {
      const double below = entries[u] + 1.0;
      if (below > hi || u == t) continue;
      const double slope = (y - below) / (t - u);
      if (t > u)
        least = std::max(least, slope);
      else
        greatest = std::min(greatest, slope);
    }
    if (least > greatest) return false;
  }
  scale = (least + greatest) / 2;
  return true;
}

// The offset in the middle of those that fit `scale`.
double middle_offset(double scale, const int32_t* entries, int32_t lo, int32_t hi) {
  double least = -1e5, greatest = 1e5;
  for (int32_t t = 0; t < 256; ++t) {
    const double y = entries[t], rise = scale * (t - 128);
    if (y != lo) least = std::max(least, y - rise);
    if (y != hi) greatest = std::min(greatest, y + 1.0 - rise);
  }
  return (least + greatest) / 2;
}

}  // namespace

bool find_line(int32_t multiplier, int32_t shift, int32_t lo, int32_t hi, Lines rounding, bool negated, Line& line) {
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
  if (double{line.scale} > scale) line.scale = std::nextafter(line.scale, 0.0f);
  line.scale_rest = static_cast<float>(scale - double{line.scale});
  double offset = middle_offset(scale, steps) - before_rounding(rounding);
  if (negated) {  // the line at ~x = -1 - x
    line.scale = -line.scale;
    line.scale_rest = -line.scale_rest;
    offset -= scale;
  }
  line.offset = static_cast<float>(offset);
  return std::fabs(line.offset) < 1e6f && equals_steps(line, steps, rounding, negated);
}

bool find_line(const int32_t* entries, int32_t lo, int32_t hi, Lines rounding, Line& line) {
  double scale;
  if (!middle_scale(entries, lo, hi, scale)) return false;
  line = {static_cast<float>(scale), 0.0f, 0.0f};
  line.offset = static_cast<float>(middle_offset(line.scale, entries, lo, hi) - before_rounding(rounding));
  for (int32_t t = 0; t < 256; ++t)
    if (at_line(line, t - 128, lo, hi, rounding) != entries[t]) return false;
  return true;
}

bool holds_beyond(const Line& line, const int32_t* entries, int32_t lo, int32_t hi, Lines rounding, int64_t reach,
                  int32_t shift, bool negated) {
  const int64_t half = int64_t{1} << shift >> 1;
  if (reach + half > kGreatest) return false;
  for (const int64_t end : {(half - reach) >> shift, (half + reach) >> shift}) {
    const auto t = static_cast<int32_t>(negated ? ~end : end);
    if (t >= -128 && t <= 127) continue;
    // The kernel makes it an int32 before it clamps.
    if (std::fabs(double{line.scale} * t + double{line.offset}) > double{1 << 30}) return false;
    if (at_line(line, t, lo, hi, rounding) != entries[t < 0 ? 0 : 255]) return false;
  }
  return true;
}

bool find_integer_line(const int32_t* entries, int32_t lo, int32_t hi, int32_t& slope, int32_t& start) {
  double scale;
  if (!middle_scale(entries, lo, hi, scale)) return false;
  const double rounded = std::nearbyint(std::ldexp(scale, kLineShift));
  const double offset = std::ldexp(middle_offset(std::ldexp(rounded, -kLineShift), entries, lo, hi), kLineShift);
  // At every t, -128 .. 127, the line stays within int32.
  if (std::fabs(rounded) * 128 + std::fabs(offset) >= double{1u << 31}) return false;
  slope = static_cast<int32_t>(rounded);
  start = static_cast<int32_t>(offset);
  for (int32_t t = 0; t < 256; ++t)
    if (std::min(std::max(((t - 128) * slope + start) >> kLineShift, lo), hi) != entries[t]) return false;
  return true;
}

bool find_high_product(int32_t multiplier, int32_t shift, int32_t& high, int32_t& right) {
  const int32_t up = std::max(0, 32 - shift);
  if (up > 31 || int64_t{multiplier} << up > kGreatest) return false;
  high = multiplier << up;
  right = shift + up - 31;
  return right <= 31;
}

}  // namespace edgemeta
