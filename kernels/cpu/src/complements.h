// Inputs of a convolution whose bytes are complemented, so that weights of +128 become weights of -128, which fit int8.
//
// With ~u = 255 - u for a byte u, w u = -w ~u + 255 w. So a tile may read the complement of an input, if all weights of
// the input have the other sign and 255 w is in the bias. Together with channels whose weights all have the other sign
// (sums.h) that is a choice of signs: t of each output, s of each input of the window, so that no t s w is +128.
#pragma once

#include "program.h"

namespace edgemeta {

// The outputs that are negated and the inputs of the window that are complemented.
struct Signs {
  std::vector<bool> negated, complemented;
};

// Signs with which few weights, mostly none, are +128. Where is_fixed, an output keeps its sign; where is_free, its
// weights do not count.
Signs find_signs(const Layer& layer, const std::vector<bool>& is_fixed, const std::vector<bool>& is_free);

// The layer as a tile that reads these complements has it: the weights of their inputs negated.
Layer with_complements(Layer layer, const std::vector<bool>& complemented);

// 255 times the sum of an output's weights of complemented inputs, modulo 2**32: what its bias takes.
uint32_t bias_of_complements(const Layer& layer, size_t output, const std::vector<bool>& complemented);

// For each group of four inputs of the window, as the tile reads them, 0xff in the bytes that it complements.
std::vector<int32_t> masks_of(const Layer& layer, const Conv& conv, const std::vector<bool>& complemented);

}  // namespace edgemeta
