#include "requantize.h"

#include <algorithm>
#include <cmath>

namespace edgemeta {
namespace {

bool is_float(Lines lines) { return lines != Lines::none && lines != Lines::integers; }

}  // namespace

RequantizePlan::RequantizePlan(const RequantizeSpec& spec, const std::vector<Run>& runs, int32_t zero, int32_t offset,
                               Lines lines, const Sums* sums) {
  const size_t lanes = runs.size() * kBlock;
  method_.assign(runs.size(), Method::raw);
  sign_.assign(lanes, 0);
  added_.assign(lanes, 0);
  zero_ = zero;
  if (spec.kind == EM_RAW) {
    for (size_t block = 0; sums != nullptr && block < runs.size(); ++block)
      for (int32_t lane = 0; lane < runs[block].count; ++lane)
        sign_[block * kBlock + lane] = sums->negated[runs[block].output_channel + lane] ? -1 : 0;
    return;
  }
  scale_.assign(lanes, 0.0f);
  scale_rest_.assign(lanes, 0.0f);
  offset_.assign(lanes, 0.0f);
  lo_ = spec.lo + offset;
  hi_ = spec.hi + offset;
  if (spec.kind == EM_MULTIPLIER)
    plan_multiplier(spec, runs, lines, sums);
  else
    plan_table(spec, runs, offset, lines, sums);
}

void RequantizePlan::plan_multiplier(const RequantizeSpec& spec, const std::vector<Run>& runs, Lines lines,
                                     const Sums* sums) {
  const size_t lanes = runs.size() * kBlock;
  multiplier_.assign(lanes, 0);
  half_.assign(lanes, 0);
  shift_.assign(lanes, 0);
  high_multiplier_.assign(lanes, 0);
  high_shift_.assign(lanes, 1);
  for (size_t block = 0; block < runs.size(); ++block) {
    bool all_lines = is_float(lines), all_high = lines == Lines::integers, all_narrow = true;
    Line line{0, 0, 0};
    for (int32_t lane = 0; lane < runs[block].count; ++lane) {
      const size_t channel = runs[block].output_channel + lane;
      const size_t to = block * kBlock + lane, halved = block * kBlock + lane / 2 + lane % 2 * 8;
      const int32_t multiplier = spec.multiplier[channel], shift = spec.shift[channel];
      const bool negated = sums != nullptr && sums->negated[channel];
      multiplier_[to] = multiplier;
      half_[halved] = shift > 0 ? int64_t{1} << (shift - 1) : 0;
      shift_[halved] = shift;
      if (negated) {  // ~x * m + half = x * -m + (half - m)
        multiplier_[to] = -multiplier;
        half_[halved] -= multiplier;
      }
      all_narrow &= multiplier <= (int64_t{1} << shift);  // then |x * multiplier >> shift| <= |x|
      all_lines = all_lines && find_line(multiplier, shift, lo_ - zero_, hi_ - zero_, lines, negated, line);
      set_line(to, line);
      all_high = all_high && !negated && find_high_product(multiplier, shift, high_multiplier_[to], high_shift_[to]);
    }
    method_[block] = all_lines    ? Method::line
                     : all_high   ? Method::high_product
                     : all_narrow ? Method::multiplier
                                  : Method::wide_multiplier;
  }
}

// The index of an accumulator a is round(a, s). That of ~a - 2**s is ~index for s > 0, as is that of ~a for s = 0; so
// the table of a negated channel is read from its end.
void RequantizePlan::plan_table(const RequantizeSpec& spec, const std::vector<Run>& runs, int32_t offset, Lines lines,
                                const Sums* sums) {
  const size_t lanes = runs.size() * kBlock;
  table_shift_.assign(lanes, 0);
  kept_.assign(lanes, 0);
  table_.assign(lanes * 256, 0);
  slope_.assign(lanes, 0);
  start_.assign(lanes, 0);
  const auto bounds = std::minmax_element(spec.table.begin(), spec.table.end());
  lo_ = *bounds.first + offset;
  hi_ = *bounds.second + offset;
  for (size_t block = 0; block < runs.size(); ++block) {
    bool all_lines = is_float(lines), all_integers = lines == Lines::integers, all_hold = all_lines && sums != nullptr;
    Line line{0, 0, 0};
    int32_t entries[256];
    for (int32_t lane = 0; lane < runs[block].count; ++lane) {
      const size_t channel = runs[block].output_channel + lane, to = block * kBlock + lane;
      const bool negated = sums != nullptr && sums->negated[channel];
      const int32_t shift = spec.shift[channel] - (sums != nullptr && sums->halved[channel]);
      table_shift_[to] = shift;
      if (negated && shift > 0) added_[to] = static_cast<int32_t>(-(int64_t{1} << shift));
      for (size_t t = 0; t < 256; ++t) {
        entries[t] = spec.table[channel * 256 + (negated ? 255 - t : t)] + offset;
        table_[to * 256 + t] = static_cast<uint8_t>(entries[t]);
        entries[t] -= zero_;
      }
      const int32_t lo = lo_ - zero_, hi = hi_ - zero_;
      all_lines = all_lines && find_line(entries, lo, hi, lines, line);
      all_hold =
          all_hold && all_lines && holds_beyond(line, entries, lo, hi, lines, sums->reach[channel], shift, negated);
      set_line(to, line);
      all_integers = all_integers && find_integer_line(entries, lo, hi, slope_[to], start_[to]);
    }
    // In plain C++ a table takes two thirds of the time of a shift for each lane and a line.
    all_lines = all_lines && lines != Lines::stepwise;
    method_[block] = all_hold       ? Method::rounded_line
                     : all_lines    ? Method::shifted_line
                     : all_integers ? Method::integer_line
                                    : Method::table;
    for (int32_t lane = 0; all_hold && lane < runs[block].count; ++lane) round_lane(block * kBlock + lane);
  }
}

// The index of a is t = (a + half) >> s. With the half in the bias, a's bits from s on are t * 2**s, and float32 makes
// of that 2**s times what it makes of t: so the line of t, its scale divided by 2**s, gives the same without a shift.
void RequantizePlan::round_lane(size_t lane) {
  const int32_t shift = table_shift_[lane];
  added_[lane] += static_cast<int32_t>(1u << shift >> 1);  // shift is up to 31
  kept_[lane] = static_cast<int32_t>(~0u << shift);
  scale_[lane] = std::ldexp(scale_[lane], -shift);
}

void RequantizePlan::set_line(size_t lane, const Line& line) {
  scale_[lane] = line.scale;
  scale_rest_[lane] = line.scale_rest;
  offset_[lane] = line.offset;
}

Requantize RequantizePlan::view() const {
  return {method_.data(),
          scale_.data(),
          scale_rest_.data(),
          offset_.data(),
          multiplier_.data(),
          half_.data(),
          shift_.data(),
          table_shift_.data(),
          kept_.data(),
          table_.data(),
          high_multiplier_.data(),
          high_shift_.data(),
          slope_.data(),
          start_.data(),
          sign_.data(),
          zero_,
          lo_,
          hi_};
}

std::vector<Run> whole_blocks(int32_t channels) {
  std::vector<Run> runs;
  for (int32_t c = 0; c < channels; c += kBlock) runs.push_back({0, c, std::min(kBlock, channels - c)});
  return runs;
}

}  // namespace edgemeta
