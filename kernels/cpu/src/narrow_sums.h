// The form `bytes`: of how many products a sum in int8 or int16 can be, proved from the weights of a layer.
#pragma once

#include "lowbit.h"

namespace edgemeta {

// sum_bytes 0: there is no form for the layer. widenings: of the sums to int32, for each step of narrow.inputs inputs,
// without the one that every form has at its end.
struct NarrowSteps {
  int32_t sum_bytes = 0, steps = 0;
  double widenings = 0;
};

// Sums that saturate (AVX2). The inputs are 0 .. greatest_input.
NarrowSteps saturating_steps(const Layer& layer, const Conv& conv, int32_t greatest_input);

// Sums that wrap, of sum_bytes. A lane's sum of w (u - low) over its steps lies in
//
//   -span * (sum of |w| of negative ones) .. span * (sum of positive w)
//
// for inputs low <= u <= low + span, so a start can be found with which it fits 8 sum_bytes bits if and only if
//
//   span * (sum of |w|) <= 2**(8 sum_bytes) - 1.
//
// The fewest parts of the window, as equal as can be, of which all lanes of all outputs fulfil this.
NarrowSteps wrapping_steps(const Layer& layer, const Conv& conv, const NarrowSums& narrow, int32_t span,
                           int32_t sum_bytes);

// What narrow sums begin at, as Conv::starts has it, and what the bias of each output takes, [blocks * 16]:
//
//   start = offset - low * (sum of w),  offset = span * (sum of |w| of negative ones) - 2**(8 sum_bytes - 1)
//   start + sum of w u = offset + sum of w (u - low), and the bias takes - (sum of all offsets of the output).
struct NarrowStarts {
  std::vector<int8_t> starts;
  int64_t of_block = 0;
  std::vector<uint32_t> bias;
};
NarrowStarts narrow_starts(const Layer& layer, const Conv& conv, const NarrowSums& narrow, int32_t span);

}  // namespace edgemeta
