#include "histogram.h"

#include <cstring>

namespace edgemeta::simulate {
namespace {

// Elements that follow one another often fall into the same bin: in tables of their own they need not wait for the
// count before them.
constexpr int kTables = 4;
constexpr int64_t kMost = int64_t{1} << 31;  // elements that surely do not overflow a table

uint32_t bin_of(uint32_t pattern) {
  const uint32_t magnitude = (pattern & 0x7FFFFFFF) >> kDroppedBits;
  return pattern >> 31 ? kBins / 2 - 1 - magnitude : kBins / 2 + magnitude;
}

}  // namespace

void count_in_bins(const float* x, int64_t count, std::vector<uint64_t>& counts) {
  for (; count > kMost; x += kMost, count -= kMost) count_in_bins(x, kMost, counts);
  std::vector<uint32_t> tables(kTables * kBins);
  int64_t i = 0;
  for (; i + kTables <= count; i += kTables) {
    uint32_t patterns[kTables];
    std::memcpy(patterns, x + i, sizeof patterns);
    for (int table = 0; table < kTables; ++table) ++tables[table * kBins + bin_of(patterns[table])];
  }
  for (; i < count; ++i) {
    uint32_t pattern;
    std::memcpy(&pattern, x + i, sizeof pattern);
    ++tables[bin_of(pattern)];
  }
  // Infinities and NaN have the greatest magnitudes, so their bins are the outermost.
  constexpr uint32_t finite = 0x7F800000u >> kDroppedBits;
  for (uint32_t bin = kBins / 2 - finite; bin < kBins / 2 + finite; ++bin)
    for (int table = 0; table < kTables; ++table) counts[bin] += tables[table * kBins + bin];
}

}  // namespace edgemeta::simulate
