#include "narrow_sums.h"

#include <algorithm>

#include "packing.h"

namespace edgemeta {
namespace {

// The weights of a layer as conv_bytes reads them, before they are packed.
class Lanes {
 public:
  Lanes(const Layer& layer, const Conv& conv, const NarrowSums& narrow)
      : narrow_(narrow), steps_(window_bytes(conv) / narrow.inputs), outputs_(conv.out.blocks() * kBlock) {
    weights_.resize(int64_t{outputs_} * window_bytes(conv));
    pack_groups(layer, conv, narrow.inputs, weights_.data(), narrow.outputs);
  }

  int32_t steps() const { return steps_; }
  int32_t outputs() const { return outputs_; }

  // Calls visit(weight) for each weight that the lane of a sum of sum_bytes takes in the steps first .. last - 1. One
  // in int8 has one of sixteen inputs, one in int16 two that are eight apart.
  template <typename Visit>
  void each(int32_t output, int32_t first, int32_t last, int32_t lane, int32_t sum_bytes, const Visit& visit) const {
    for (int32_t step = first; step < last; ++step) {
      const int64_t of_step = int64_t{output / narrow_.outputs} * steps_ + step;
      const int8_t* group = weights_.data() + (of_step * narrow_.outputs + output % narrow_.outputs) * narrow_.inputs;
      for (int32_t i = lane; i < narrow_.inputs; i += narrow_.inputs / sum_bytes) visit(group[i]);
    }
  }

  // Whether all sums of an output over so many steps are exact.
  bool fit(int32_t output, int32_t steps, int32_t span, int32_t sum_bytes) const {
    const int32_t end = 1 << (8 * sum_bytes - 1), below = below_middle(span), above = span - below;
    for (int32_t first = 0; first < steps_; first += steps)
      for (int32_t lane = 0; lane < narrow_.inputs / sum_bytes; ++lane) {
        int64_t positive = 0, negative = 0;
        each(output, first, std::min(first + steps, steps_), lane, sum_bytes,
             [&](int32_t weight) { (weight > 0 ? positive : negative) += weight > 0 ? weight : -weight; });
        if (above * positive + below * negative >= end || below * positive + above * negative > end) return false;
      }
    return true;
  }

 private:
  const NarrowSums& narrow_;
  int32_t steps_, outputs_;
  std::vector<int8_t> weights_;
};

int32_t parts_of(int32_t all, int32_t each) { return (all + each - 1) / each; }

}  // namespace

NarrowSteps saturating_steps(const Layer& layer, const Conv& conv, int32_t greatest_input) {
  // None of the sums of products, positive and negative ones by themselves, passes 2**15 - 1: then none does in any
  // order.
  const int64_t steps = window_bytes(conv) / 4, lanes = int64_t{conv.out.blocks()} * kBlock * 2;
  std::vector<int32_t> positive(steps * lanes), negative(steps * lanes);
  for_each_weight(layer, conv, [&](int32_t o, int32_t ky, int32_t span, int32_t in_span, int32_t weight) {
    const int64_t step = (int64_t{ky} * conv.spans + span) * (conv.span / 4) + in_span / 4;
    const int64_t lane = o * 2 + in_span % 4 / 2;
    (weight > 0 ? positive : negative)[lane * steps + step] += weight > 0 ? weight : -weight;
  });
  const auto fits = [&](int64_t count) {
    for (const std::vector<int32_t>* sums : {&positive, &negative})
      for (int64_t lane = 0; lane < lanes; ++lane)
        for (int64_t first = 0; first < steps; first += count) {
          int64_t sum = 0;
          for (int64_t step = first; step < std::min(first + count, steps); ++step) sum += (*sums)[lane * steps + step];
          if (sum * greatest_input > 32767) return false;
        }
    return true;
  };
  int64_t count = std::min<int64_t>(steps, 64);
  while (count > 0 && !fits(count)) --count;
  if (count == 0) return {};
  return {2, static_cast<int32_t>(count), 1.0 / count};
}

NarrowSteps wrapping_steps(const Layer& layer, const Conv& conv, const NarrowSums& narrow, int32_t span,
                           int32_t sum_bytes) {
  const Lanes lanes(layer, conv, narrow);
  int32_t fitting = 0;  // outputs in a row, around the end
  for (int32_t parts = 1, output = 0; parts <= lanes.steps();) {
    const int32_t steps = parts_of(lanes.steps(), parts);
    if (parts_of(lanes.steps(), steps) != parts || !lanes.fit(output, steps, span, sum_bytes)) {
      ++parts;
      fitting = 0;
      continue;
    }
    if (++fitting == lanes.outputs()) return {sum_bytes, steps, double(parts - 1) / lanes.steps()};
    output = (output + 1) % lanes.outputs();
  }
  return {};
}

}  // namespace edgemeta
