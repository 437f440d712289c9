// Converts convolutions to steps: repacks weights, folds zero points into the bias.
#include <algorithm>

#include "complements.h"
#include "lowbit.h"
#include "steps.h"
#include "sums.h"

namespace edgemeta {
namespace {

// bias - zero * sum of weights, modulo 2**32: with it the kernel can sum w * u instead of w * (u - zero).
int32_t corrected_bias(const Layer& layer, size_t channel, int32_t zero) {
  const size_t per_channel = layer.weights.size() / layer.bias.size();
  uint32_t sum = 0;
  for (size_t i = 0; i < per_channel; ++i) sum += static_cast<uint32_t>(layer.weights[channel * per_channel + i]);
  return static_cast<int32_t>(static_cast<uint32_t>(layer.bias[channel]) - static_cast<uint32_t>(zero) * sum);
}

// The layer whose accumulators the kernel computes: some channels negated or halved, and in the bias what the
// requantization adds there, for which it has found room in int32.
Layer as_computed(const Layer& layer, const Sums& sums, const RequantizePlan& requantize) {
  Layer computed = within_bytes(layer, sums);
  for (size_t o = 0; o < computed.bias.size(); ++o) computed.bias[o] += requantize.added(o);
  return computed;
}

struct FastConv {
  Conv conv{};
  Planes planes{};
  Buffer weights;
  std::vector<int32_t> complements;
  HighDigits high;
  PlaneFactors factors;
  std::vector<uint8_t> lowest_pairs;
  std::vector<int32_t> bias;
  RequantizePlan requantize;
};

// The arguments without weights. A kernel row is one run if the channels of its taps are contiguous.
void describe_conv(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels, Conv& conv) {
  const Tensor& input = tensors[layer.inputs[0]];
  conv.in = input.view;
  conv.out = written_by(layer, tensors);
  conv.window = window_of(layer);
  conv.tap_row = conv.in.row * layer.window.dilation_y;
  const int32_t depth = (input.type.channels + 3) / 4 * 4;
  const bool joined = (depth == conv.in.pixel && layer.window.dilation_x == 1) || conv.window.width == 1;
  conv.spans = joined ? 1 : conv.window.width;
  conv.span = joined ? (conv.window.width - 1) * conv.in.pixel + depth : depth;
  conv.span = (conv.span + kernels.span_group - 1) / kernels.span_group * kernels.span_group;
  conv.span_step = conv.in.pixel * layer.window.dilation_x;
}

Step make_fast_conv(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels, size_t& scratch) {
  auto fast = std::make_shared<FastConv>();
  Conv& conv = fast->conv;
  const Tensor& input = tensors[layer.inputs[0]];
  describe_conv(layer, tensors, kernels, conv);
  const std::vector<Run> runs = whole_blocks(conv.out.channels);
  const Sums sums = sums_of(layer, kernels, span_of(conv.in, kernels));
  fast->requantize = requantize_to(tensors[layer.computed], layer, runs, kernels, &sums);
  const Layer given = as_computed(layer, sums, fast->requantize);
  Layer lowest = given;
  LowBits low_bits;
  if (weights_fit(given, kernels)) {
    low_bits = choose_form(given, input, conv, kernels);
  } else {
    Conv split = conv;
    if (!sums.complemented.empty()) {
      fast->complements = masks_of(layer, conv, sums.complemented);
      split.complements = fast->complements.data();
      lowest = with_complements(given, sums.complemented);
    }
    HighDigits high = split_digits(lowest, split);
    low_bits.description = high.description + description_of_complements(sums);
    low_bits.share = high.share;
    if (replaced_by_winograd(given, conv, kernels, low_bits)) {
      lowest = given;
    } else {
      conv = split;
      fast->high = std::move(high);
    }
  }
  low_bits.description += description_of(sums);
  conv.low = low_bits.low;
  conv.steps = low_bits.steps;
  conv.sum_bytes = low_bits.sum_bytes;
  fast->weights = pack_weights(lowest, conv, low_bits, kernels);
  low_bits.weight_bytes += fast->high.weights.size();
  conv.weights = fast->weights.data();
  fast->bias.assign(size_t(conv.out.blocks()) * kBlock, 0);
  for (size_t o = 0; o < layer.bias.size(); ++o) {
    const auto bias = static_cast<uint32_t>(corrected_bias(given, o, conv.in.zero - conv.low));
    const uint32_t more = conv.complements == nullptr ? 0 : bias_of_complements(given, o, sums.complemented);
    fast->bias[o] = static_cast<int32_t>(bias + more);
  }
  if (low_bits.form == EM_PLAIN && kernels.weight_group == 16) {
    fast->lowest_pairs = lowest_pairs(conv, fast->weights);
    conv.lowest_pairs = fast->lowest_pairs.empty() ? nullptr : fast->lowest_pairs.data();
  }
  conv.bias = fast->bias.data();
  conv.has_sum = layer.sum != nullptr;
  if (conv.has_sum) {
    conv.sum = sum_of(*layer.sum, tensors, layer.sum_operand);
    conv.other = tensors[layer.inputs[1]].view;
  }
  conv.requantize = fast->requantize.view();
  Step step{layer.name, conv.out.height, {}, low_bits.description, low_bits.weight_bytes, low_bits.share};
  const LowBitKernels& few = *kernels.low_bit;
  if (low_bits.form == EM_PLANES) {
    fast->factors = plane_factors(layer, conv, low_bits);
    const PlaneFactors& by = fast->factors;
    const int32_t most = most_words(fast->weights, low_bits, conv.out.blocks(), few.most_words);
    fast->planes = {conv, low_bits.weight_bits, low_bits.input_bits, low_bits.words, most, by.factors.data(),
                    low_bits.by_bases ? by.present.data() : nullptr, by.of_sum.data()};
    scratch = std::max(scratch, few.conv_planes_scratch(fast->planes));
    step.run = [fast, run = few.conv_planes](uint8_t* arena, int32_t first, int32_t last, uint8_t* own) {
      run(fast->planes, arena, first, last, own);
    };
    return step;
  }
  auto run = kernels.conv;
  auto needed = kernels.conv_scratch;
  if (low_bits.form == EM_BYTES) {
    run = few.conv_bytes;
    needed = few.conv_bytes_scratch;
  } else if (low_bits.form == EM_WINOGRAD) {
    run = kernels.conv_winograd;
    step.rows_per_unit = kernels.winograd_side;
    needed = kernels.conv_winograd_scratch;
  }
  scratch = std::max(scratch, needed(conv));
  step.run = step_of(layer, conv, run, fast).run;
  return step;
}

struct DepthwiseConv {
  Depthwise conv{};
  std::vector<int64_t> taps;
  Buffer weights;
  std::vector<uint32_t> rests;
  std::vector<int32_t> bias;
  RequantizePlan requantize;
};

// For each block the kernel rows with a weight that does not fit int8, as Depthwise has them.
std::vector<uint32_t> rests_of(const Layer& layer, const Depthwise& conv) {
  std::vector<uint32_t> rests(conv.out.blocks(), 0);
  for (int32_t i = 0; i < static_cast<int32_t>(layer.weights.size()); ++i) {
    const int32_t channel = i / conv.tap_count, ky = i % conv.tap_count / conv.window.width;
    if (layer.weights[i] < -128 || layer.weights[i] > 127) rests[channel / kBlock] |= 1u << std::min(ky, 31);
  }
  return rests;
}

// The arguments without weights.
std::shared_ptr<DepthwiseConv> describe_depthwise(const Layer& layer, const std::vector<Tensor>& tensors) {
  auto made = std::make_shared<DepthwiseConv>();
  Depthwise& conv = made->conv;
  conv.in = tensors[layer.inputs[0]].view;
  conv.out = written_by(layer, tensors);
  conv.window = window_of(layer);
  conv.tap_row = conv.in.row * layer.window.dilation_y;
  conv.tap_pixel = conv.in.pixel * layer.window.dilation_x;
  for (int32_t ky = 0; ky < conv.window.height; ++ky)
    for (int32_t kx = 0; kx < conv.window.width; ++kx)
      made->taps.push_back(ky * conv.tap_row + int64_t{kx} * conv.tap_pixel);
  conv.taps = made->taps.data();
  conv.tap_count = static_cast<int32_t>(made->taps.size());
  return made;
}

Step make_depthwise(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  auto made = describe_depthwise(layer, tensors);
  Depthwise& conv = made->conv;
  const Sums sums = sums_of(layer, kernels, span_of(conv.in, kernels));
  made->requantize = requantize_to(tensors[layer.computed], layer, whole_blocks(conv.out.channels), kernels, &sums);
  conv.requantize = made->requantize.view();
  const Layer given = as_computed(layer, sums, made->requantize);
  if (!weights_fit(given, kernels)) {
    made->rests = rests_of(given, conv);
    conv.rests = made->rests.data();
    const auto [least, greatest] = std::minmax_element(given.weights.begin(), given.weights.end());
    conv.is_wide = *least < -256 || *greatest > 254;
  }
  made->weights = Buffer(kernels.depthwise_bytes(conv));
  kernels.pack_depthwise(conv, given.weights.data(), made->weights.data());
  conv.weights = made->weights.data();
  made->bias.assign(size_t(conv.out.blocks()) * kBlock, 0);
  for (size_t c = 0; c < layer.bias.size(); ++c) made->bias[c] = corrected_bias(given, c, conv.in.zero);
  conv.bias = made->bias.data();
  Step step = step_of(layer, conv, kernels.depthwise, made);
  step.form = "depthwise" + description_of(sums);
  step.weight_bytes = static_cast<int64_t>(made->weights.size());
  return step;
}

struct SlowConv {
  GenericConv conv{};
  std::vector<Run> runs;
  std::vector<int32_t> weights, bias;
  RequantizePlan requantize;
};

// Blocks of output channels within a group, all reading the group's input channels.
std::vector<Run> group_runs(const GenericConv& conv, int32_t groups) {
  std::vector<Run> runs;
  const int32_t per_group = conv.out.channels / groups;
  for (int32_t group = 0; group < groups; ++group)
    for (int32_t o = 0; o < per_group; o += kBlock)
      runs.push_back({group * conv.depth, group * per_group + o, std::min(kBlock, per_group - o)});
  return runs;
}

Step make_generic_conv(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  auto slow = std::make_shared<SlowConv>();
  GenericConv& conv = slow->conv;
  conv.in = tensors[layer.inputs[0]].view;
  conv.out = written_by(layer, tensors);
  conv.window = window_of(layer);
  conv.tap_row = conv.in.row * layer.window.dilation_y;
  conv.tap_pixel = conv.in.pixel * layer.window.dilation_x;
  conv.depth = conv.in.channels / layer.groups;
  slow->runs = group_runs(conv, layer.groups);
  const int32_t taps = conv.window.height * conv.window.width * conv.depth;
  slow->weights.assign(slow->runs.size() * taps * kBlock, 0);
  slow->bias.assign(slow->runs.size() * kBlock, 0);
  for (size_t r = 0; r < slow->runs.size(); ++r) {
    for (int32_t lane = 0; lane < slow->runs[r].count; ++lane) {
      const size_t channel = slow->runs[r].output_channel + lane;
      slow->bias[r * kBlock + lane] = corrected_bias(layer, channel, conv.in.zero);
      for (int32_t t = 0; t < taps; ++t)
        slow->weights[(r * taps + t) * kBlock + lane] = layer.weights[channel * taps + t];
    }
  }
  conv.runs = slow->runs.data();
  conv.run_count = static_cast<int32_t>(slow->runs.size());
  conv.weights = slow->weights.data();
  conv.bias = slow->bias.data();
  slow->requantize = requantize_to(tensors[layer.computed], layer, slow->runs, kernels);
  conv.requantize = slow->requantize.view();
  Step step = step_of(layer, conv, kernels.generic_conv, slow);
  step.form = "int32";
  step.weight_bytes = static_cast<int64_t>(slow->weights.size()) * 4;
  return step;
}

bool is_depthwise(const Layer& layer, const std::vector<Tensor>& tensors) {
  return layer.groups == tensors[layer.inputs[0]].type.channels && layer.groups == tensors[layer.output].type.channels;
}

// Whether the kernel for depthwise convolutions takes the layer.
bool can_depthwise(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  const Layer given = within_bytes(layer, sums_of(layer, kernels));
  const auto [least, greatest] = std::minmax_element(given.weights.begin(), given.weights.end());
  return kernels.can_depthwise(describe_depthwise(layer, tensors)->conv, *least, *greatest);
}

}  // namespace

bool runs_fast(const Layer& layer, const Kernels& kernels) {
  return layer.kind == Kind::conv && layer.groups == 1 &&
         (kernels.low_bit->has_digits || weights_fit(layer, kernels) ||
          weights_fit(within_bytes(layer, sums_of(layer, kernels)), kernels));
}

Step make_convolution(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels,
                      size_t& scratch) {
  if (runs_fast(layer, kernels)) return make_fast_conv(layer, tensors, kernels, scratch);
  if (is_depthwise(layer, tensors) && layer.requantize.kind != EM_RAW && can_depthwise(layer, tensors, kernels))
    return make_depthwise(layer, tensors, kernels);
  return make_generic_conv(layer, tensors, kernels);
}

}  // namespace edgemeta
