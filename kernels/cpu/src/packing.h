// Where each weight of a convolution goes in memory.
#pragma once

#include "lowbit.h"

namespace edgemeta {

// Calls visit(output channel, kernel row, run, index in the run, weight) for each weight.
template <typename Visit>
void for_each_weight(const Layer& layer, const Conv& conv, Visit visit) {
  const PaddedWindow& w = layer.window;
  const auto outputs = static_cast<int32_t>(layer.bias.size());
  const auto depth =
      static_cast<int32_t>(layer.weights.size() / layer.bias.size()) / (w.kernel_height * w.kernel_width);
  const bool joined = conv.spans == 1;
  const int32_t* from = layer.weights.data();
  for (int32_t o = 0; o < outputs; ++o)
    for (int32_t ky = 0; ky < w.kernel_height; ++ky)
      for (int32_t kx = 0; kx < w.kernel_width; ++kx)
        for (int32_t i = 0; i < depth; ++i, ++from)
          visit(o, ky, joined ? 0 : kx, joined ? kx * conv.span_step + i : i, *from);
}

// So many outputs after the others: [kernel rows][spans][span / group][outputs][group].
template <typename Weight>
void pack_groups(const Layer& layer, const Conv& conv, int32_t group, Weight* packed, int32_t outputs = kBlock) {
  for_each_weight(layer, conv, [&](int32_t o, int32_t ky, int32_t span, int32_t in_span, int32_t weight) {
    const int64_t row = (int64_t{o / outputs} * conv.window.height + ky) * conv.spans + span;
    const int64_t group_index = row * (conv.span / group) + in_span / group;
    packed[(group_index * outputs + o % outputs) * group + in_span % group] = static_cast<Weight>(weight);
  });
}

inline int32_t window_bytes(const Conv& conv) { return conv.window.height * conv.spans * conv.span; }

// Words of a bit plane of the window, for 64 inputs at a time.
inline int32_t words_of(const Conv& conv) { return (window_bytes(conv) + 63) / 64 * 2; }

}  // namespace edgemeta
