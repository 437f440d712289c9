// Converts layers to steps: repacks weights, folds zero points into the bias, binds arguments.
#include <algorithm>
#include <limits>

#include "program.h"

namespace edgemeta {
namespace {

int32_t zero_of(const Tensor& tensor) { return tensor.type.zero_point + tensor.offset; }

Window window_of(const Layer& layer) {
  const em_window& w = layer.window;
  return {w.kernel_height, w.kernel_width, w.stride_y, w.stride_x, w.top, w.left};
}

RequantizePlan requantize_to(const Tensor& output, const Layer& layer, const std::vector<Run>& runs,
                             const Kernels& kernels) {
  return RequantizePlan(layer.requantize, runs, zero_of(output), output.offset, kernels.has_lines);
}

Sum sum_of(const Layer& layer, const std::vector<Tensor>& tensors, int32_t first_operand) {
  const int32_t second_operand = 1 - first_operand;
  const int32_t multipliers[2] = {layer.multiplier_a, layer.multiplier_b};
  const Tensor& output = tensors[layer.output];
  const int32_t a = multipliers[first_operand], b = multipliers[second_operand];
  const int32_t half = layer.shift > 0 ? 1 << (layer.shift - 1) : 0;
  const int32_t zeros =
      a * zero_of(tensors[layer.inputs[first_operand]]) + b * zero_of(tensors[layer.inputs[second_operand]]);
  return {a, b, half - zeros, layer.shift, zero_of(output), layer.lo + output.offset, layer.hi + output.offset};
}

// bias - zero * sum of weights, modulo 2**32: with it the kernel can sum w * u instead of w * (u - zero).
int32_t corrected_bias(const Layer& layer, size_t channel, int32_t zero) {
  const size_t per_channel = layer.weights.size() / layer.bias.size();
  uint32_t sum = 0;
  for (size_t i = 0; i < per_channel; ++i) sum += static_cast<uint32_t>(layer.weights[channel * per_channel + i]);
  return static_cast<int32_t>(static_cast<uint32_t>(layer.bias[channel]) - static_cast<uint32_t>(zero) * sum);
}

template <typename Weight>
void pack(const Layer& layer, const Conv& conv, int32_t group, Weight* packed) {
  const em_window& w = layer.window;
  const auto outputs = static_cast<int32_t>(layer.bias.size());
  const auto depth =
      static_cast<int32_t>(layer.weights.size() / layer.bias.size()) / (w.kernel_height * w.kernel_width);
  const bool joined = conv.spans == 1;
  const int32_t* from = layer.weights.data();
  for (int32_t o = 0; o < outputs; ++o)
    for (int32_t ky = 0; ky < w.kernel_height; ++ky)
      for (int32_t kx = 0; kx < w.kernel_width; ++kx)
        for (int32_t i = 0; i < depth; ++i, ++from) {
          const int32_t span = joined ? 0 : kx, in_span = joined ? kx * conv.span_step + i : i;
          const int64_t row = (int64_t{o / kBlock} * w.kernel_height + ky) * conv.spans + span;
          const int64_t group_index = row * (conv.span / group) + in_span / group;
          packed[(group_index * kBlock + o % kBlock) * group + in_span % group] = static_cast<Weight>(*from);
        }
}

struct FastConv {
  Conv conv{};
  Buffer weights;
  std::vector<int32_t> bias;
  RequantizePlan requantize;
};

Step make_fast_conv(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels, size_t& scratch) {
  auto fast = std::make_shared<FastConv>();
  Conv& conv = fast->conv;
  const Tensor& input = tensors[layer.inputs[0]];
  conv.in = input.view;
  conv.out = tensors[layer.output].view;
  conv.window = window_of(layer);
  conv.tap_row = conv.in.row * layer.window.dilation_y;
  // A kernel row is one run if the channels of its taps are contiguous.
  const int32_t depth = (input.type.channels + 3) / 4 * 4;
  const bool joined = (depth == conv.in.pixel && layer.window.dilation_x == 1) || conv.window.width == 1;
  conv.spans = joined ? 1 : conv.window.width;
  conv.span = joined ? (conv.window.width - 1) * conv.in.pixel + depth : depth;
  conv.span_step = conv.in.pixel * layer.window.dilation_x;

  const auto blocks = static_cast<size_t>(conv.out.blocks());
  const size_t per_block = size_t(conv.window.height) * conv.spans * conv.span * kBlock;
  fast->weights = Buffer(blocks * per_block * kernels.weight_bytes);
  if (kernels.weight_bytes == 1)
    pack(layer, conv, kernels.weight_group, reinterpret_cast<int8_t*>(fast->weights.data()));
  else
    pack(layer, conv, kernels.weight_group, reinterpret_cast<int16_t*>(fast->weights.data()));
  conv.weights = fast->weights.data();
  fast->bias.assign(blocks * kBlock, 0);
  for (size_t o = 0; o < layer.bias.size(); ++o) fast->bias[o] = corrected_bias(layer, o, conv.in.zero);
  conv.bias = fast->bias.data();

  const std::vector<Run> runs = whole_blocks(conv.out.channels);
  conv.has_sum = layer.sum != nullptr;
  if (conv.has_sum) {
    conv.sum = sum_of(*layer.sum, tensors, layer.sum_operand);
    conv.other = tensors[layer.inputs[1]].view;
    fast->requantize = requantize_to(tensors[layer.sum->inputs[layer.sum_operand]], layer, runs, kernels);
  } else {
    fast->requantize = requantize_to(tensors[layer.output], layer, runs, kernels);
  }
  conv.requantize = fast->requantize.view();
  scratch = std::max(scratch, kernels.conv_scratch(conv));
  return {layer.name, conv.out.height,
          [fast, run = kernels.conv](uint8_t* arena, int32_t first, int32_t last, uint8_t* own) {
            run(fast->conv, arena, first, last, own);
          }};
}

struct SlowConv {
  GenericConv conv{};
  std::vector<Run> runs;
  std::vector<int32_t> weights, bias;
  RequantizePlan requantize;
};

// Blocks of channels, each reading itself.
std::vector<Run> depthwise_runs(int32_t channels) {
  std::vector<Run> runs = whole_blocks(channels);
  for (Run& run : runs) run.input_channel = run.output_channel;
  return runs;
}

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
  conv.out = tensors[layer.output].view;
  conv.window = window_of(layer);
  conv.tap_row = conv.in.row * layer.window.dilation_y;
  conv.tap_pixel = conv.in.pixel * layer.window.dilation_x;
  conv.depth = conv.in.channels / layer.groups;
  conv.depthwise = layer.groups == conv.in.channels && layer.groups == conv.out.channels;
  slow->runs = conv.depthwise ? depthwise_runs(layer.groups) : group_runs(conv, layer.groups);
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
  slow->requantize = requantize_to(tensors[layer.output], layer, slow->runs, kernels);
  conv.requantize = slow->requantize.view();
  return {layer.name, conv.out.height,
          [slow, run = kernels.generic_conv](uint8_t* arena, int32_t first, int32_t last, uint8_t*) {
            run(slow->conv, arena, first, last);
          }};
}

// A step whose arguments are plain data and optionally a requantization.
template <typename Arguments>
Step make_plain(const Layer& layer, Arguments arguments, void (*run)(const Arguments&, uint8_t*, int32_t, int32_t),
                std::shared_ptr<RequantizePlan> requantize = nullptr) {
  return {layer.name, arguments.out.height,
          [arguments, run, requantize](uint8_t* arena, int32_t first, int32_t last, uint8_t*) {
            run(arguments, arena, first, last);
          }};
}

Step make_concat(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  std::vector<Copy> copies;
  int32_t channel = 0;
  for (int32_t input : layer.inputs) {
    copies.push_back({tensors[input].view, tensors[layer.output].view, channel, 1, 1});
    channel += tensors[input].view.channels;
  }
  return {layer.name, tensors[layer.output].view.height,
          [copies, run = kernels.concat](uint8_t* arena, int32_t first, int32_t last, uint8_t*) {
            for (const Copy& copy : copies) run(copy, arena, first, last);
          }};
}

// Entries on the library's integers: u of the input is the table's column, the output's offset is added.
Step make_lookup(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  const Tensor& output = tensors[layer.output];
  auto table = std::make_shared<std::vector<uint8_t>>();
  for (int16_t entry : layer.table) table->push_back(static_cast<uint8_t>(entry + output.offset));
  const Lookup lookup{tensors[layer.inputs[0]].view, output.view, table->data(), table->size() > 256};
  return {layer.name, output.view.height,
          [lookup, table, run = kernels.lookup](uint8_t* arena, int32_t first, int32_t last, uint8_t*) {
            run(lookup, arena, first, last);
          }};
}

Step make_bilinear(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  auto lists = std::make_shared<std::pair<NeighbourLists, NeighbourLists>>(layer.rows, layer.columns);
  const auto pointers = [](const NeighbourLists& axis) {
    return Neighbours{axis.lower.data(), axis.upper.data(), axis.weight.data()};
  };
  const Bilinear bilinear{tensors[layer.inputs[0]].view, tensors[layer.output].view, pointers(lists->first),
                          pointers(lists->second)};
  return {layer.name, bilinear.out.height,
          [bilinear, lists, run = kernels.bilinear](uint8_t* arena, int32_t first, int32_t last, uint8_t*) {
            run(bilinear, arena, first, last);
          }};
}

}  // namespace

bool runs_fast(const Layer& layer, const Kernels& kernels) {
  if (layer.kind != Kind::conv || layer.groups != 1) return false;
  const int32_t greatest = kernels.weight_bytes == 1 ? 127 : 32767;
  const auto bounds = std::minmax_element(layer.weights.begin(), layer.weights.end());
  return *bounds.first >= -greatest - 1 && *bounds.second <= greatest;
}

Step make_step(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels, size_t& scratch) {
  const Tensor& output = tensors[layer.output];
  const View &in = tensors[layer.inputs[0]].view, &out = output.view;
  std::shared_ptr<RequantizePlan> requantize;
  if (layer.kind == Kind::rescale || layer.kind == Kind::average_pool || layer.kind == Kind::product)
    requantize = std::make_shared<RequantizePlan>(requantize_to(output, layer, whole_blocks(out.channels), kernels));
  switch (layer.kind) {
    case Kind::conv:
      return runs_fast(layer, kernels) ? make_fast_conv(layer, tensors, kernels, scratch)
                                       : make_generic_conv(layer, tensors, kernels);
    case Kind::sum:
      return make_plain(layer, Addition{in, tensors[layer.inputs[1]].view, out, sum_of(layer, tensors, 0)},
                        kernels.add);
    case Kind::clamp:
      return make_plain(layer, Elementwise{in, out, layer.lo + output.offset, layer.hi + output.offset, {}},
                        kernels.clamp);
    case Kind::rescale:
      return make_plain(layer, Elementwise{in, out, 0, 0, requantize->view()}, kernels.rescale, requantize);
    case Kind::max_pool:
      return make_plain(layer, Pool{in, out, window_of(layer), {}}, kernels.max_pool);
    case Kind::average_pool:
      return make_plain(layer, Pool{in, out, window_of(layer), requantize->view()}, kernels.average_pool, requantize);
    case Kind::concat:
      return make_concat(layer, tensors, kernels);
    case Kind::lookup:
      return make_lookup(layer, tensors, kernels);
    case Kind::product: {
      const View& b = tensors[layer.inputs[1]].view;
      const bool one_pixel = b.height == 1 && b.width == 1;
      return make_plain(layer, Product{in, b, out, one_pixel, requantize->view()}, kernels.product, requantize);
    }
    case Kind::pad:
      return make_plain(layer, Pad{in, out, layer.top, layer.left, layer.factor_y, layer.factor_x}, kernels.pad);
    case Kind::slice: {
      const Slice slice{in,
                        out,
                        layer.top,
                        layer.left,
                        layer.channel,
                        layer.factor_y,
                        layer.factor_x,
                        layer.step_channel};
      return make_plain(layer, slice, kernels.slice);
    }
    case Kind::shuffle:
      return make_plain(layer, Shuffle{in, out, layer.groups}, kernels.shuffle);
    case Kind::bilinear:
      return make_bilinear(layer, tensors, kernels);
    case Kind::upsample:
      break;
  }
  return make_plain(layer, Copy{in, out, 0, layer.factor_y, layer.factor_x}, kernels.upsample);
}

}  // namespace edgemeta
