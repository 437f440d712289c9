// The form `bytes`: of how many products a sum in int8 or int16 can be, proved from the weights of a layer.
#pragma once

#include "lowbit.h"

namespace edgemeta {

// sum_bytes 0: there is no form for the layer. widenings: of the sums to int32, for each step of narrow.inputs inputs;
// where sums wrap, without the one at the end, which the plain form has, too.
struct NarrowSteps {
  int32_t sum_bytes = 0, steps = 0;
  double widenings = 0;
};

// Sums that saturate (AVX2). The inputs are 0 .. greatest_input.
NarrowSteps saturating_steps(const Layer& layer, const Conv& conv, int32_t greatest_input);

// The inputs less the middle of their range, Conv::low, are -below .. above = span - below.
inline int32_t below_middle(int32_t span) { return (span + 1) / 2; }

// Sums that wrap, of sum_bytes. With P the sum of a lane's positive weights over its steps, and N that of the
// magnitudes of its negative ones, the sum of its w (u - middle) is, for all inputs,
//
//   at most above * P + below * N  and at least  -(below * P + above * N),
//
// and is found modulo 2**bits, so it is exact if these do not pass 2**(bits - 1) - 1 and -2**(bits - 1), bits = 8
// sum_bytes. The steps are those of the fewest parts of the window, as equal as can be, of which this is true for all
// lanes of all outputs.
NarrowSteps wrapping_steps(const Layer& layer, const Conv& conv, const NarrowSums& narrow, int32_t span,
                           int32_t sum_bytes);

}  // namespace edgemeta
