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

  // Calls visit(weight) for each weight that the lane of a sum of sum_bytes takes in the steps first .. last - 1: a sum
  // in int8 has an input of each sixteen, one in int16 two that are eight inputs apart.
  template <typename Visit>
  void each(int32_t output, int32_t first, int32_t last, int32_t lane, int32_t sum_bytes, const Visit& visit) const {
    for (int32_t step = first; step < last; ++step) {
      const int64_t of_step = int64_t{output / narrow_.outputs} * steps_ + step;
      const int8_t* group = weights_.data() + (of_step * narrow_.outputs + output % narrow_.outputs) * narrow_.inputs;
      for (int32_t i = lane; i < narrow_.inputs; i += narrow_.inputs / sum_bytes) visit(group[i]);
    }
  }

  // Whether no sum of so many steps takes more values than it has.
  bool fit(int32_t steps, int32_t span, int32_t sum_bytes) const {
    const int32_t most = (1 << 8 * sum_bytes) - 1;
    for (int32_t output = 0; output < outputs_; ++output)
      for (int32_t first = 0; first < steps_; first += steps)
        for (int32_t lane = 0; lane < narrow_.inputs / sum_bytes; ++lane) {
          int64_t magnitudes = 0;
          each(output, first, std::min(first + steps, steps_), lane, sum_bytes,
               [&](int32_t weight) { magnitudes += weight < 0 ? -weight : weight; });
          if (span * magnitudes > most) return false;
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
  for (int32_t parts = 1; parts <= lanes.steps(); ++parts) {
    const int32_t steps = parts_of(lanes.steps(), parts);
    if (parts_of(lanes.steps(), steps) == parts && lanes.fit(steps, span, sum_bytes))
      return {sum_bytes, steps, double(parts - 1) / lanes.steps()};
  }
  return {};
}

NarrowStarts narrow_starts(const Layer& layer, const Conv& conv, const NarrowSums& narrow, int32_t span) {
  const Lanes lanes(layer, conv, narrow);
  const int32_t parts = parts_of(lanes.steps(), conv.steps), of_sum = narrow.inputs / conv.sum_bytes;
  NarrowStarts found;
  found.of_block = int64_t{parts} * kBlock * narrow.inputs;
  found.starts.resize(conv.out.blocks() * found.of_block);
  found.bias.resize(lanes.outputs());
  for (int32_t output = 0; output < lanes.outputs(); ++output)
    for (int32_t part = 0; part < parts; ++part)
      for (int32_t lane = 0; lane < of_sum; ++lane) {
        int32_t sum = 0, negative = 0;
        const int32_t first = part * conv.steps, last = std::min(first + conv.steps, lanes.steps());
        lanes.each(output, first, last, lane, conv.sum_bytes, [&](int32_t weight) {
          sum += weight;
          negative -= std::min(weight, 0);
        });
        const int32_t offset = span * negative - (1 << (8 * conv.sum_bytes - 1)), start = offset - conv.low * sum;
        const int64_t of_part = int64_t{output / narrow.outputs} * parts + part;
        int8_t* to = found.starts.data() + (of_part * narrow.outputs + output % narrow.outputs) * narrow.inputs;
        for (int32_t byte = 0; byte < conv.sum_bytes; ++byte)
          to[lane * conv.sum_bytes + byte] = static_cast<int8_t>(start >> 8 * byte);
        found.bias[output] -= static_cast<uint32_t>(offset);
      }
  return found;
}

}  // namespace edgemeta
