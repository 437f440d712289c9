// Weights of a convolution that fit eight bits in place of those that do not.
//
// A power of two of five bits may be +128, which int8 does not hold, while -128 and 64 fit. So the kernel may compute a
// channel with other weights:
//
// - halved, if all are even and a table's index is the accumulator a = 2 A + b shifted by s > 0, where A is the sum of
//   the halves and b the bias: floor((a + 2**(s - 1)) / 2**s) = floor((A + floor(b / 2) + 2**(s - 2)) / 2**(s - 1)),
//   and A + floor((b + 1) / 2) for s = 1;
// - negated: the sum of -w u, from ~bias = -1 - bias on, is ~a = -1 - a. The requantization of the channel then gives
//   f(a) for ~a (requantize.cpp);
// - with the complements of some inputs (complements.h).
#pragma once

#include "program.h"

namespace edgemeta {

// Whether all weights of a layer fit the multiplier of these kernels.
bool weights_fit(const Layer& layer, const Kernels& kernels);

// What the accumulators of a convolution reach, and how its channels are computed, in a layer whose weights lie within
// 128 and do not fit: those with weights of 128 are halved where that is possible; of the others those with more
// weights of 128 than of -128 are negated, or with complements those that go with them. span: greatest |x - zero| of
// the input.
Sums sums_of(const Layer& layer, const Kernels& kernels, int32_t span = 255);

// The span of an input, whatever its bytes are.
int32_t span_of(const View& input, const Kernels& kernels);

// The layer with weights and biases of these channels replaced; not yet those of complements.
Layer within_bytes(Layer layer, const Sums& sums);

// How many channels were negated and halved, as a part of a form's description; "" for none.
std::string description_of(const Sums& sums);
std::string description_of_complements(const Sums& sums);

}  // namespace edgemeta
