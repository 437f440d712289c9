// Finding a float32 line that equals an integer step function, and proving it.
//
// A multiplier's result is a step function of the accumulator x that never falls: it is fixed by the least x that gives
// each k, T[k]. A line with scale >= 0 never falls either, as fma and the conversion to float round monotonically. So
// the two are equal on all 2**32 inputs if the line is below k at T[k] - 1 and not below k at T[k], for every k.
// A table has only 256 inputs, and all of them are tried.
#include <cmath>
#include <limits>

#include "requantize.h"

namespace edgemeta {
namespace {

constexpr int64_t kLeast = std::numeric_limits<int32_t>::min(), kGreatest = std::numeric_limits<int32_t>::max();

int32_t at_line(const Line& line, int32_t x, int32_t lo, int32_t hi) {
  const float value = std::fma(static_cast<float>(x), line.scale, line.offset);
  return static_cast<int32_t>(std::fmin(std::fmax(value, static_cast<float>(lo)), static_cast<float>(hi)));
}

// Least x with zero + ((x * multiplier + half) >> shift) >= k, for multiplier > 0; it may lie outside int32.
int64_t threshold(int32_t k, int32_t multiplier, int32_t shift, int32_t zero) {
  const __int128 half = shift > 0 ? __int128{1} << (shift - 1) : 0;
  const __int128 needed = __int128{k - zero} * (__int128{1} << shift) - half;
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

// The offset in the middle of those that fit `scale`, computed in double; the proof decides.
bool middle_offset(float scale, const Thresholds& steps, double& offset) {
  double least = -1e30, greatest = 1e30;
  for (int32_t i = 0; i < steps.count; ++i) {
    const double k = steps.lo + 1 + i;
    const int64_t t = steps.at[i];
    if (t <= kGreatest) least = std::fmax(least, k - double{scale} * static_cast<float>(t));
    if (t > kLeast) greatest = std::fmin(greatest, k - double{scale} * static_cast<float>(t - 1));
  }
  offset = (least + greatest) / 2;
  return least < greatest;
}

float neighbour(float x, int steps) {
  const float towards = steps > 0 ? std::numeric_limits<float>::infinity() : 0.0f;
  for (int i = std::abs(steps); i > 0; --i) x = std::nextafter(x, towards);
  return x;
}

}  // namespace

bool find_line(int32_t multiplier, int32_t shift, int32_t zero, int32_t lo, int32_t hi, Line& line) {
  if (multiplier == 0) {  // round(0, shift) = 0
    line = {0.0f, static_cast<float>(zero) + 0.5f};
    return true;
  }
  Thresholds steps{lo, hi - lo, {}};
  for (int32_t i = 0; i < steps.count; ++i) steps.at[i] = threshold(lo + 1 + i, multiplier, shift, zero);
  const float scale = static_cast<float>(std::ldexp(double(multiplier), -shift));
  for (int i = 0; i < 33; ++i) {
    const float near_scale = neighbour(scale, i % 2 ? (i + 1) / 2 : -i / 2);
    double offset;
    if (!middle_offset(near_scale, steps, offset)) continue;
    line = {near_scale, static_cast<float>(offset)};
    if (equals_steps(line, steps)) return true;
  }
  return false;
}

// Entry y at t asks for y <= scale * t + offset (unless y is lo) and scale * t + offset < y + 1 (unless y is hi). Each
// pair of a lower and an upper bound limits the scale; any scale within all limits leaves room for an offset.
bool find_line(const uint8_t* table, int32_t lo, int32_t hi, Line& line) {
  double least = -1e9, greatest = 1e9;
  for (int32_t t = 0; t < 256; ++t) {
    if (table[t] == lo) continue;
    for (int32_t u = 0; u < 256; ++u) {
      if (table[u] == hi || u == t) continue;
      const double slope = (table[t] - (table[u] + 1.0)) / (t - u);
      if (t > u) least = std::fmax(least, slope);
      else greatest = std::fmin(greatest, slope);
    }
  }
  if (least > greatest) return false;
  const double middle = least <= 0 && greatest >= 0 && (least == -1e9 || greatest == 1e9) ? 0 : (least + greatest) / 2;
  const float scale = static_cast<float>(middle);
  double offset_least = -1e30, offset_greatest = 1e30;
  for (int32_t t = 0; t < 256; ++t) {
    if (table[t] != lo) offset_least = std::fmax(offset_least, table[t] - double{scale} * (t - 128));
    if (table[t] != hi) offset_greatest = std::fmin(offset_greatest, table[t] + 1.0 - double{scale} * (t - 128));
  }
  const double offset = offset_least == -1e30 ? lo : offset_greatest == 1e30 ? hi : (offset_least + offset_greatest) / 2;
  line = {scale, static_cast<float>(offset)};
  for (int32_t t = 0; t < 256; ++t)
    if (at_line(line, t - 128, lo, hi) != table[t]) return false;
  return true;
}

}  // namespace edgemeta
