#include "sums.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "complements.h"

namespace edgemeta {
namespace {

// A channel's accumulator lies within |bias| + sum of |w| |x - zero|.
int64_t reach_of(const int32_t* weights, size_t count, int32_t bias, int32_t span) {
  int64_t sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::abs(int64_t{weights[i]});
  return span * sum + std::abs(int64_t{bias});
}

bool are_even(const int32_t* weights, size_t count) {
  return std::all_of(weights, weights + count, [](int32_t weight) { return weight % 2 == 0; });
}

// Tiles read complements where they take weights in two parts, which those replace.
bool can_complement(const Layer& layer, const Kernels& kernels) {
  return kernels.low_bit->has_digits && layer.groups == 1;
}

// ", 3 NAMEs WHAT", or "" for none.
std::string counted(const std::vector<bool>& those, const char* name, const char* what) {
  const auto count = std::count(those.begin(), those.end(), true);
  return count == 0 ? "" : ", " + std::to_string(count) + " " + name + (count == 1 ? " " : "s ") + what;
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
  const bool has_tables = layer.requantize.kind == EM_TABLE;
  std::vector<bool> is_fixed;
  bool is_any_left = false;  // of the weights of 128, after some channels are negated
  Sums sums;
  for (size_t o = 0; o < outputs; ++o) {
    const int32_t* weights = layer.weights.data() + o * count;
    const int32_t shift = has_tables ? layer.requantize.shift[o] : 0;
    const auto positive = std::count(weights, weights + count, 128);
    const auto negative = std::count(weights, weights + count, -128);
    const bool halved = can_help && shift > 0 && positive > 0 && are_even(weights, count);
    const int64_t reach = reach_of(weights, count, layer.bias[o], span) / (halved ? 2 : 1) + halved;
    // A table's index is turned by a step of 2**shift, which the accumulator must have room for.
    const int64_t step = has_tables ? int64_t{1} << shift : 0;
    const bool has_room = reach + step < std::numeric_limits<int32_t>::max();
    sums.reach.push_back(reach);
    sums.halved.push_back(halved);
    sums.negated.push_back(can_help && has_room && !halved && positive > negative);
    is_fixed.push_back(!has_room);
    is_any_left |= !halved && (sums.negated[o] ? negative : positive) > 0;
  }
  if (is_any_left && can_help && can_complement(layer, kernels)) {
    Signs signs = find_signs(layer, is_fixed, sums.halved);
    sums.negated = std::move(signs.negated);
    sums.complemented = std::move(signs.complemented);
  }
  return sums;
}

Layer within_bytes(Layer layer, const Sums& sums) {
  const size_t count = layer.weights.size() / layer.bias.size();
  for (size_t o = 0; o < layer.bias.size(); ++o) {
    int32_t* weights = layer.weights.data() + o * count;
    if (sums.negated[o]) {
      layer.bias[o] = ~layer.bias[o];
      for (size_t i = 0; i < count; ++i) weights[i] *= -1;
    }
    if (sums.halved[o]) {
      const bool is_rounded_up = layer.requantize.shift[o] == 1 && layer.bias[o] % 2 != 0;
      layer.bias[o] = (layer.bias[o] >> 1) + is_rounded_up;
      for (size_t i = 0; i < count; ++i) weights[i] /= 2;
    }
  }
  return layer;
}

std::string description_of(const Sums& sums) {
  return counted(sums.negated, "channel", "negated") + counted(sums.halved, "channel", "halved");
}

std::string description_of_complements(const Sums& sums) { return counted(sums.complemented, "input", "complemented"); }

}  // namespace edgemeta
