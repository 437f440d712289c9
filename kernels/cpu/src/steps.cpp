// Converts layers to steps: binds arguments.
#include "steps.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace edgemeta {

View written_by(const Layer& layer, const std::vector<Tensor>& tensors) {
  View view = tensors[layer.output].view;
  view.zero = zero_of(tensors[layer.sum == nullptr ? layer.computed : layer.sum->computed]);
  return view;
}

Window window_of(const Layer& layer) {
  const PaddedWindow& w = layer.window;
  return {w.kernel_height, w.kernel_width, w.stride_y, w.stride_x, w.top, w.left};
}

RequantizePlan requantize_to(const Tensor& output, const Layer& layer, const std::vector<Run>& runs,
                             const Kernels& kernels, const Sums* sums) {
  return RequantizePlan(layer.requantize, runs, zero_of(output), output.offset, kernels.lines, sums);
}

Sum sum_of(const Layer& layer, const std::vector<Tensor>& tensors, int32_t first_operand) {
  const int32_t second_operand = 1 - first_operand;
  const int32_t multipliers[2] = {layer.multiplier_a, layer.multiplier_b};
  const Tensor& output = tensors[layer.computed];
  const int32_t a = multipliers[first_operand], b = multipliers[second_operand];
  const int32_t half = layer.shift > 0 ? 1 << (layer.shift - 1) : 0;
  const int32_t zeros =
      a * zero_of(tensors[layer.inputs[first_operand]]) + b * zero_of(tensors[layer.inputs[second_operand]]);
  int32_t constant = half - zeros, zero = zero_of(output);
  // (x >> shift) + zero = (x + zero * 2**shift) >> shift, if no sum of two bytes leaves int32 with it.
  const int64_t moved = constant + (int64_t{zero} << layer.shift);
  const int64_t reach = 255 * (std::abs(int64_t{a}) + std::abs(int64_t{b}));
  if (std::abs(moved) + reach < int64_t{1} << 31) {
    constant = static_cast<int32_t>(moved);
    zero = 0;
  }
  return {a, b, constant, layer.shift, zero, layer.lo + output.offset, layer.hi + output.offset};
}

namespace {

Step make_concat(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  std::vector<Copy> copies;
  for (size_t i = 0; i < layer.inputs.size(); ++i)
    copies.push_back({tensors[layer.inputs[i]].view, written_by(layer, tensors), layer.channels[i]});
  return {layer.name, tensors[layer.output].view.height,
          [copies, run = kernels.concat](uint8_t* arena, int32_t first, int32_t last, uint8_t*) {
            for (const Copy& copy : copies) run(copy, arena, first, last);
          }};
}

// The entries of a plan's tables as the library's integers, by the bits of that of the input; of tables for each
// channel, those of whole blocks.
std::vector<uint8_t> library_table(const std::vector<int8_t>& entries, const View& input, const View& output,
                                   const Kernels& kernels) {
  std::vector<uint8_t> table(entries.size() > 256 ? size_t(output.blocks()) * kBlock * 256 : 256);
  const size_t flip = kernels.is_signed ? 128 : 0;  // a plan's table begins with the least integer
  const int32_t offset = kernels.is_signed ? 0 : 128;
  for (size_t i = 0; i < entries.size(); ++i) table[i] = static_cast<uint8_t>(entries[i ^ flip] + offset);
  if (table.size() > 256 && input.pixel % kBlock == 0)
    kernels.pack_tables(table.data(), static_cast<int64_t>(table.size() / 256));
  return table;
}

Step make_lookup(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  const View &in = tensors[layer.inputs[0]].view, out = written_by(layer, tensors);
  auto table = std::make_shared<std::vector<uint8_t>>(library_table(layer.table, in, out, kernels));
  const Lookup lookup{in, out, table->data(), table->size() > 256, false};
  return step_of(layer, lookup, kernels.lookup, table);
}

Step make_bilinear(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  auto lists = std::make_shared<std::pair<NeighbourLists, NeighbourLists>>(layer.rows, layer.columns);
  const auto pointers = [](const NeighbourLists& axis) {
    return Neighbours{axis.lower.data(), axis.upper.data(), axis.weight.data()};
  };
  const Bilinear bilinear{tensors[layer.inputs[0]].view, written_by(layer, tensors), pointers(lists->first),
                          pointers(lists->second)};
  return step_of(layer, bilinear, kernels.bilinear, lists);
}

Step make_gather(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  const Tensor& input = tensors[layer.inputs[0]];
  const auto bytes_of = [&](const std::vector<int32_t>& elements) {
    std::vector<int64_t> bytes;
    for (const int32_t element : elements) {
      const Position at = position_of(std::max(element, 0), input.type);
      bytes.push_back(element < 0 ? -1 : at.y * input.view.row + int64_t{at.x} * input.view.pixel + at.channel);
    }
    return bytes;
  };
  struct Lists {
    std::vector<int64_t> rows, columns, channels;
  };
  const auto& [rows, columns, channels] = layer.places;
  auto lists = std::make_shared<Lists>(Lists{bytes_of(rows), bytes_of(columns), bytes_of(channels)});
  const bool is_pixel = counts(channels, 0, 1)
                        && static_cast<int32_t>(channels.size()) <= input.type.channels;  // none of the next pixel
  const ElementGather gather{input.view, written_by(layer, tensors), lists->rows.data(), lists->columns.data(),
                      is_pixel ? nullptr : lists->channels.data()};
  return step_of(layer, gather, kernels.gather, lists);
}

Step make_matmul(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels,
                 std::shared_ptr<RequantizePlan> requantize, size_t& scratch) {
  const View a = tensors[layer.inputs[0]].view, b = tensors[layer.inputs[1]].view, out = written_by(layer, tensors);
  const MatMul op{a, b, out, layer.groups, a.channels / layer.groups, out.channels / layer.groups, layer.transposed,
                  requantize->view()};
  scratch = std::max(scratch, kernels.matmul_scratch(op));
  return step_of(layer, op, kernels.matmul, requantize);
}

Step make_softmax(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  const Tensor& output = tensors[layer.computed];
  auto powers = std::make_shared<std::vector<int32_t>>(layer.powers);
  const Softmax op{tensors[layer.inputs[0]].view, written_by(layer, tensors),      layer.groups,
                   powers->data(),                layer.multiplier_a,                output.type.hi + output.offset};
  return step_of(layer, op, kernels.softmax, powers);
}

Step make_normalize(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels,
                    std::shared_ptr<RequantizePlan> requantize) {
  auto numbers = std::make_shared<std::pair<std::vector<int32_t>, std::vector<int32_t>>>(layer.weights, layer.bias);
  const size_t padded = size_t(tensors[layer.inputs[0]].view.blocks()) * kBlock;
  numbers->first.resize(padded);
  numbers->second.resize(padded);
  const Normalize op{tensors[layer.inputs[0]].view, written_by(layer, tensors), layer.whole,        layer.epsilon,
                     numbers->first.data(),         numbers->second.data(),     requantize->view()};
  return step_of(layer, op, kernels.normalize, numbers, requantize);
}

Step make_constant(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels) {
  auto values = std::make_shared<std::vector<uint8_t>>(layer.values);
  for (uint8_t& value : *values) value = static_cast<uint8_t>(value + tensors[layer.computed].offset);
  const Fill op{written_by(layer, tensors), values->data()};
  return step_of(layer, op, kernels.fill, values);
}

Step make_plain_step(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels, size_t& scratch) {
  const Tensor& output = tensors[layer.computed];
  const View in = tensors[layer.inputs[0]].view, out = written_by(layer, tensors);
  std::shared_ptr<RequantizePlan> requantize;
  if (layer.kind == Kind::rescale || layer.kind == Kind::average_pool || layer.kind == Kind::product ||
      layer.kind == Kind::matmul || layer.kind == Kind::normalize)
    requantize = std::make_shared<RequantizePlan>(requantize_to(output, layer, whole_blocks(out.channels), kernels));
  switch (layer.kind) {
    case Kind::conv:
      return make_convolution(layer, tensors, kernels, scratch);
    case Kind::sum:
      return step_of(layer, Addition{in, tensors[layer.inputs[1]].view, out, sum_of(layer, tensors, 0)},
                        kernels.add);
    case Kind::rescale:
      return step_of(layer, Rescale{in, out, requantize->view()}, kernels.rescale, requantize);
    case Kind::max_pool: {
      const Pool pool{in, out, window_of(layer), {}, 0, 0};
      scratch = std::max(scratch, kernels.max_pool_scratch(pool));
      return step_of(layer, pool, kernels.max_pool);
    }
    case Kind::average_pool:
      return step_of(layer,
                        Pool{in, out, window_of(layer), requantize->view(), layer.inside ? layer.share_y : 0,
                             layer.inside ? layer.share_x : 0},
                        kernels.average_pool, requantize);
    case Kind::concat:
      return make_concat(layer, tensors, kernels);
    case Kind::lookup:
      return make_lookup(layer, tensors, kernels);
    case Kind::product: {
      const View& b = tensors[layer.inputs[1]].view;
      const bool one_pixel = b.height == 1 && b.width == 1;
      return step_of(layer, Product{in, b, out, one_pixel, requantize->view()}, kernels.product, requantize);
    }
    case Kind::bilinear:
      return make_bilinear(layer, tensors, kernels);
    case Kind::matmul:
      return make_matmul(layer, tensors, kernels, requantize, scratch);
    case Kind::softmax:
      return make_softmax(layer, tensors, kernels);
    case Kind::normalize:
      return make_normalize(layer, tensors, kernels, requantize);
    case Kind::constant:
      return make_constant(layer, tensors, kernels);
    case Kind::gather:
      break;
  }
  return make_gather(layer, tensors, kernels);
}

// Applies the table to the rows that a step has made, while they are in the first cache. Tables for each channel take
// some pixels at once; where the step fills the border, too, it does so later.
Step with_table(Step step, const Layer& layer, const Tensor& output, const Kernels& kernels) {
  constexpr int64_t kBytes = 8192, kChannelBytes = 32768, kPixels = 512;
  const View& out = output.view;
  auto table = std::make_shared<std::vector<uint8_t>>(library_table(layer.after, out, out, kernels));
  const bool per_channel = table->size() > 256;
  const int64_t bytes = per_channel ? std::max(kChannelBytes, kPixels * out.pixel) : kBytes;
  const auto fitting = static_cast<int32_t>(bytes / (int64_t{out.width} * out.pixel));
  const int32_t rows = std::max(1, fitting / step.rows_per_unit) * step.rows_per_unit;
  const Lookup lookup{out, out, table->data(), per_channel, layer.border_of >= 0};
  auto make = std::move(step.run);
  step.run = [rows, table, lookup, make = std::move(make), look_up = kernels.lookup](uint8_t* arena, int32_t first,
                                                                                     int32_t last, uint8_t* own) {
    for (int32_t y = first; y < last; y += rows) {
      const int32_t end = std::min(last, y + rows);
      make(arena, y, end, own);
      look_up(lookup, arena, y, end);
    }
  };
  return step;
}

// Fills the border at the rows that a step makes: after each row its right side and the left one of the next row.
Step with_border(Step step, const Tensor& tensor) {
  const View view = tensor.view;
  const int64_t start = tensor.start, pixel = view.pixel, left = tensor.left * pixel, right = tensor.right * pixel;
  const int64_t above = tensor.top * view.row + left, below = right + tensor.bottom * view.row;
  auto make = std::move(step.run);
  step.run = [=, make = std::move(make)](uint8_t* arena, int32_t first, int32_t last, uint8_t* own) {
    make(arena, first, last, own);
    if (first == 0) std::memset(arena + start, view.zero, above);
    for (int32_t y = first; y < last; ++y)
      std::memset(arena + view.at(y, view.width), view.zero, y + 1 < view.height ? right + left : below);
  };
  return step;
}

}  // namespace

Step make_step(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels, size_t& scratch) {
  Step step = make_plain_step(layer, tensors, kernels, scratch);
  if (layer.sum != nullptr) step.name += "+" + layer.sum->name;
  if (!layer.after.empty()) step.name += "+" + layer.after_name;
  if (!layer.after.empty()) step = with_table(std::move(step), layer, tensors[layer.output], kernels);
  return layer.border_of < 0 ? step : with_border(std::move(step), tensors[layer.border_of]);
}

}  // namespace edgemeta
