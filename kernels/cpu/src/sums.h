// Signs of the weights of a convolution: those that keep them within eight bits.
//
// A power of two of five bits may be +128, which int8 does not hold, while -128 fits. So the kernel may compute a
// channel with all its weights negated: the sum of -w u, from ~bias = -1 - bias on, is ~a = -1 - a where a is the
// accumulator. The requantization of the channel then gives f(a) for ~a (requantize.cpp).
#pragma once

#include "program.h"

namespace edgemeta {

// Whether all weights of a layer fit the multiplier of these kernels.
bool weights_fit(const Layer& layer, const Kernels& kernels);

// What the accumulators of a convolution reach, and the channels that are worth negating: those with more weights of
// 128 than of -128, in a layer whose weights lie within 128 and do not fit. span: greatest |x - zero| of the input.
Sums sums_of(const Layer& layer, const Kernels& kernels, int32_t span = 255);

// The span of an input, whatever its bytes are.
int32_t span_of(const View& input, const Kernels& kernels);

// The layer with weights and biases of the negated channels replaced.
Layer with_signs(Layer layer, const Sums& sums);

// Of how many channels the sign was changed, as a part of a form's description; "" for none.
std::string description_of(const Sums& sums);

}  // namespace edgemeta
