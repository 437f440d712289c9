// How a convolution with weights or activations of few bits runs: its form, and its weights in memory.
#pragma once

#include "program.h"

namespace edgemeta {

// A form (EM_PLAIN ...) with what its kernel needs.
struct LowBits {
  int32_t form = EM_PLAIN;
  int32_t weight_bits = 8, input_bits = 8;  // of the layer
  bool by_bases = false;     // planes: those of the weights are their bases
  int32_t low = 0;           // taken off each input byte
  int32_t steps = 0;         // bytes: see Conv
  int32_t sum_bytes = 0;     // bytes: see Conv
  int32_t words = 0;         // planes: see Planes
  int64_t weight_bytes = 0;  // in memory
  double share = 1;          // its predicted time as a share of the plain form's
  std::string description;   // the form and why, in words
};

// The digits of a layer's weights above the lowest, and what HighDigit points to.
struct HighDigits {
  std::vector<int64_t> at;  // one block's digits after the other
  std::vector<int32_t> complements;
  Buffer weights;
  std::vector<HighDigit> views;  // [blocks * digits]
  std::string description;  // as LowBits has them
  double share = 1;
};

// Sets the weights of `layer` to their lowest digits, which fit int8, and conv's digits to the others. Weights from
// -256 to 254 become sums of two that fit, so that nothing is multiplied by 256.
HighDigits split_digits(Layer& layer, Conv& conv);

// Whether a layer whose weights do not fit the kernels' multiplier runs by Winograd, whose transformed weights are
// int16, and not in digits: where it is asked for or takes less time. Then `digits` becomes that form.
bool replaced_by_winograd(const Layer& layer, const Conv& conv, const Kernels& kernels, LowBits& digits);

// conv: the arguments of the layer without weights; the layer's weights fit the kernels' multiplier.
LowBits choose_form(const Layer& layer, const Tensor& input, const Conv& conv, const Kernels& kernels);

// What the planes of a layer's weights are multiplied by: the arrays of Planes.
struct PlaneFactors {
  std::vector<int32_t> factors, of_sum;
  std::vector<uint32_t> present;
};
PlaneFactors plane_factors(const Layer& layer, const Conv& conv, const LowBits& low_bits);

// The weights as the form's kernel reads them; sets conv's sizes of weights.
Buffer pack_weights(const Layer& layer, Conv& conv, LowBits& low_bits, const Kernels& kernels);

// Conv::lowest_pairs of packed plain weights in groups of sixteen; empty if there are none.
std::vector<uint8_t> lowest_pairs(const Conv& conv, const Buffer& weights);

// Planes::most_words of packed planes, in parts as equal as can be: `always`, or so many that the weights have at most
// 255 bits in each byte of a lane.
int32_t most_words(const Buffer& weights, const LowBits& low_bits, int32_t blocks, int32_t always);

}  // namespace edgemeta
