// Selects, for every block of sixteen channels, the fastest requantization that is proved to give equal integers.
#pragma once

#include <vector>

#include "edgemeta_cpu.h"
#include "kernels.h"

namespace edgemeta {

// A layer's requantization as in the model file, one entry per channel.
struct RequantizeSpec {
  int kind = EM_RAW;
  std::vector<int32_t> multiplier;
  std::vector<uint8_t> shift;
  int32_t lo = 0, hi = 0;
  std::vector<int16_t> table;
};

// A line in three float32 numbers: value(x) = x * scale + fma(x, scale_rest, offset), where the inner fma rounds to
// nearest. Lines::down: the outer one is exact, then rounded down to an integer. Lines::nearest: it is rounded to
// float32, then to the nearest integer, halves to the even one; `offset` is less by 1/2. Lines::stepwise: neither is
// fused, so products and sums are rounded to float32; then down to an integer. Neither scale is below 0, or neither
// above it, so that value never decreases, or never increases: each rounding preserves the order.
struct Line {
  float scale, scale_rest, offset;
};

// What is known of a convolution's accumulators, by channel. Where `negated`, the kernel computes the complement
// ~a = -1 - a, which fits int32 wherever a does; where `halved`, about a / 2, which is shifted by one less (sums.h).
// complemented: the inputs of the window of which a tile reads the complement, for all channels; empty if there are
// none. reach: the accumulator is at most so much in magnitude.
struct Sums {
  std::vector<bool> negated, halved, complemented;
  std::vector<int64_t> reach;
};

// The arrays behind a `Requantize`.
class RequantizePlan {
 public:
  RequantizePlan() = default;
  // runs: the channels of each block. offset: added to the output's integers for the library's representation
  // (Tensor::offset). sums: of a convolution whose bias takes `added`, else null.
  RequantizePlan(const RequantizeSpec& spec, const std::vector<Run>& runs, int32_t zero, int32_t offset, Lines lines,
                 const Sums* sums = nullptr);
  Requantize view() const;
  // What the bias of a lane takes besides, so that the accumulator becomes what the method expects.
  int32_t added(size_t lane) const { return added_[lane]; }

 private:
  void plan_multiplier(const RequantizeSpec& spec, const std::vector<Run>& runs, Lines lines, const Sums* sums);
  void plan_table(const RequantizeSpec& spec, const std::vector<Run>& runs, int32_t offset, Lines lines,
                  const Sums* sums);
  void set_line(size_t lane, const Line& line);
  void round_lane(size_t lane);

  std::vector<Method> method_;
  std::vector<float> scale_, scale_rest_, offset_;
  std::vector<int32_t> multiplier_, table_shift_, kept_;
  std::vector<int64_t> half_, shift_;
  std::vector<uint8_t> table_;
  std::vector<int32_t> high_multiplier_, high_shift_, slope_, start_, sign_, added_;
  int32_t zero_ = 0, lo_ = 0, hi_ = 255;
};

// clamp(value(x), lo, hi) equal to clamp(round(x * multiplier, shift), lo, hi) for every int32 x, or to that of ~x if
// it is given `negated`; false if no line was found.
bool find_line(int32_t multiplier, int32_t shift, int32_t lo, int32_t hi, Lines rounding, bool negated, Line& line);

// clamp(value(t), lo, hi) equal to entries[t + 128] for t = -128 .. 127, all from lo to hi; false if no line was found.
bool find_line(const int32_t* entries, int32_t lo, int32_t hi, Lines rounding, Line& line);

// Whether the line of a table is right beyond the table's ends, too: for all indices t = (a + half) >> shift, or ~t if
// negated, of accumulators that reach so far (Sums).
bool holds_beyond(const Line& line, const int32_t* entries, int32_t lo, int32_t hi, Lines rounding, int64_t reach,
                  int32_t shift, bool negated);

// multiplier and shift as a doubled high product: `high` < 2**31, and `right` 1 .. 31 after it; else false.
bool find_high_product(int32_t multiplier, int32_t shift, int32_t& high, int32_t& right);

// The same of clamp((t * slope + start) >> kLineShift, lo, hi).
bool find_integer_line(const int32_t* entries, int32_t lo, int32_t hi, int32_t& slope, int32_t& start);

// Blocks of sixteen channels, one after the other.
std::vector<Run> whole_blocks(int32_t channels);

}  // namespace edgemeta
