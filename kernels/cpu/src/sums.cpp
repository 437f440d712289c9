#include "sums.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace edgemeta {
namespace {

// A channel's accumulator lies within |bias| + sum of |w| |x - zero|.
int64_t reach_of(const int32_t* weights, size_t count, int32_t bias, int32_t span) {
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::abs(int64_t{weights[i]});
  return span * sum + std::abs(int64_t{bias});
}

}  // namespace

bool weights_fit(const Layer& layer, const Kernels& kernels) {
  const int32_t greatest = kernels.weight_bytes == 1 ? 127 : 32767;
  const auto bounds = std::minmax_element(layer.weights.begin(), layer.weights.end());
  return *bounds.first >= -greatest - 1 && *bounds.second <= greatest;
}

int32_t span_of(const View& input, const Kernels& kernels) {
  const int32_t least = kernels.is_signed ? -128 : 0;
  return std::max(input.zero - least, least + 255 - input.zero);
}

Sums sums_of(const Layer& layer, const Kernels& kernels, int32_t span) {
  const size_t outputs = layer.bias.size(), count = layer.weights.size() / outputs;
  const auto bounds = std::minmax_element(layer.weights.begin(), layer.weights.end());
  // Binary bases stay as they are: their planes are made of their signs.
  const bool can_help =
      kernels.weight_bytes == 1 && *bounds.first >= -128 && *bounds.second == 128 && layer.bases.count == 0;
  Sums sums;
  for (size_t o = 0; o < outputs; ++o) {
    const int32_t* weights = layer.weights.data() + o * count;
    const int64_t reach = reach_of(weights, count, layer.bias[o], span);
    // A table's index is turned by a step of 2**shift, which the accumulator must have room for.
    const int64_t step = layer.requantize.kind == EM_TABLE ? int64_t{1} << layer.requantize.shift[o] : 0;
    const bool has_room = reach + step < std::numeric_limits<int32_t>::max();
    sums.reach.push_back(reach);
    sums.negated.push_back(can_help && has_room &&
                           std::count(weights, weights + count, 128) > std::count(weights, weights + count, -128));
  }
  return sums;
}

Layer with_signs(Layer layer, const Sums& sums) {
  const size_t count = layer.weights.size() / layer.bias.size();
  for (size_t o = 0; o < layer.bias.size(); ++o) {
    if (!sums.negated[o]) continue;
    layer.bias[o] = ~layer.bias[o];
    for (size_t i = 0; i < count; ++i) layer.weights[o * count + i] *= -1;
  }
  return layer;
}

std::string description_of(const Sums& sums) {
  const auto count = std::count(sums.negated.begin(), sums.negated.end(), true);
  return count == 0 ? "" : ", " + std::to_string(count) + (count == 1 ? " channel" : " channels") + " negated";
}

}  // namespace edgemeta
