// Choosing, for every block of sixteen channels, the fastest way to requantize that is proved to give equal integers.
#pragma once

#include <vector>

#include "edgemeta_cpu.h"
#include "kernels.h"

namespace edgemeta {

// A layer's requantization as the model file has it, one entry per channel.
struct RequantizeSpec {
  int kind = EM_RAW;
  std::vector<int32_t> multiplier;
  std::vector<uint8_t> shift;
  int32_t lo = 0, hi = 0;
  std::vector<int16_t> table;

  RequantizeSpec() = default;
  RequantizeSpec(const em_requantize& given, int32_t channels);
};

// The arrays behind a `Requantize`.
class RequantizePlan {
 public:
  RequantizePlan() = default;
  // runs: which channels each block holds. offset: what turns the output's integers into the library's (0 or 128).
  RequantizePlan(const RequantizeSpec& spec, const std::vector<Run>& runs, int32_t zero, int32_t offset, bool float_lanes);
  Requantize view() const;

 private:
  void plan_multiplier(const RequantizeSpec& spec, const std::vector<Run>& runs, bool float_lanes);
  void plan_table(const RequantizeSpec& spec, const std::vector<Run>& runs, int32_t offset, bool float_lanes);

  std::vector<Method> method_;
  std::vector<float> scale_, offset_;
  std::vector<int32_t> multiplier_, table_shift_;
  std::vector<int64_t> half_, shift_;
  std::vector<uint8_t> table_;
  int32_t zero_ = 0, lo_ = 0, hi_ = 255;
};

// float32 `scale` and `offset` with clamp(floor(fma(x, scale, offset)), lo, hi) equal to the integer formula.
struct Line {
  float scale, offset;
};

// Equal to clamp(zero + round(x * multiplier, shift), lo, hi) for every int32 x; false if no such line was found.
bool find_line(int32_t multiplier, int32_t shift, int32_t zero, int32_t lo, int32_t hi, Line& line);

// Equal to table[t + 128] for t = -128 .. 127, where lo and hi bound the whole layer's tables.
bool find_line(const uint8_t* table, int32_t lo, int32_t hi, Line& line);

// Blocks of sixteen channels, one after the other.
std::vector<Run> whole_blocks(int32_t channels);

}  // namespace edgemeta
