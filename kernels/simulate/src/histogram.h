// Counts of float32 elements in bins of fixed ends (toolchain/simulate/observers.py).
#pragma once

#include <stdint.h>

#include <vector>

namespace edgemeta::simulate {

constexpr uint32_t kBins = 1 << 15;    // of the upper 15 bits of the pattern, in the order of their values
constexpr int kDroppedBits = 32 - 15;  // of a pattern

// counts[bin] += the finite elements in it; counts has kBins entries.
void count_in_bins(const float* x, int64_t count, std::vector<uint64_t>& counts);

}  // namespace edgemeta::simulate
