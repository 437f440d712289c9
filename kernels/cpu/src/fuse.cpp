// Fusion of layers: additions and tables into the layer before them, gathers by steps into the convolution that reads
// them.
#include <algorithm>
#include <map>

#include "program.h"

namespace edgemeta {
namespace {

using Readers = std::map<int32_t, int32_t>;

// Number of layers that read each tensor; an output of the network has one additional reader.
Readers count_readers(const std::vector<Layer>& layers, const std::vector<int32_t>& outputs) {
  Readers readers;
  for (int32_t output : outputs) ++readers[output];
  for (const Layer& layer : layers)
    for (int32_t input : layer.inputs) ++readers[input];
  return readers;
}

std::vector<Layer> without(std::vector<Layer> layers, const std::vector<bool>& taken) {
  std::vector<Layer> left;
  for (size_t i = 0; i < layers.size(); ++i)
    if (!taken[i]) left.push_back(std::move(layers[i]));
  return left;
}

// Index of the layer before `end` that writes a tensor, or -1.
int32_t find_writer(const std::vector<Layer>& layers, const std::vector<bool>& taken, size_t end, int32_t tensor) {
  for (size_t i = end; i-- > 0;)
    if (!taken[i] && layers[i].output == tensor) return static_cast<int32_t>(i);
  return -1;
}

// Index of the latest convolution into which `sum` can be fused, or -1.
int32_t find_partner(const std::vector<Layer>& layers, const std::vector<bool>& taken, size_t sum,
                     const Readers& readers, const Kernels& kernels) {
  for (size_t i = sum; i-- > 0;) {
    const Layer& layer = layers[i];
    if (taken[i] || layer.requantize.kind == EM_RAW || layer.sum || !runs_fast(layer, kernels)) continue;
    if (layer.output != layers[sum].inputs[0] && layer.output != layers[sum].inputs[1]) continue;
    if (readers.at(layer.output) == 1) return static_cast<int32_t>(i);
  }
  return -1;
}

std::vector<Layer> fuse_sums(std::vector<Layer> layers, const std::vector<int32_t>& outputs, const Kernels& kernels) {
  const Readers readers = count_readers(layers, outputs);
  std::vector<bool> taken(layers.size(), false);
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].kind != Kind::sum) continue;
    const int32_t partner = find_partner(layers, taken, i, readers, kernels);
    if (partner < 0) continue;
    // The convolution runs at the position of the addition, where the other operand is available.
    Layer fused = std::move(layers[partner]);
    taken[partner] = true;
    fused.sum_operand = layers[i].inputs[1] == fused.output;
    fused.sum = std::make_shared<Layer>(std::move(layers[i]));
    fused.name += "+" + fused.sum->name;
    fused.inputs.push_back(fused.sum->inputs[1 - fused.sum_operand]);
    fused.output = fused.sum->output;
    layers[i] = std::move(fused);
  }
  return without(std::move(layers), taken);
}

template <typename Number>
bool all_equal(const std::vector<Number>& values) {
  return std::all_of(values.begin(), values.end(), [&](Number value) { return value == values[0]; });
}

bool is_uniform(const RequantizeSpec& spec) {
  if (!all_equal(spec.shift)) return false;
  if (spec.kind == EM_MULTIPLIER) return all_equal(spec.multiplier);
  for (size_t i = 256; i < spec.table.size(); ++i)
    if (spec.table[i] != spec.table[i - 256]) return false;
  return true;
}

int64_t rounding_shift(int64_t value, int32_t shift) {
  return shift == 0 ? value : (value + (int64_t{1} << (shift - 1))) >> shift;
}

// The output integer of an accumulator, by the parameters of channel 0.
int32_t requantized(const RequantizeSpec& spec, int32_t zero_point, int64_t acc) {
  if (spec.kind == EM_TABLE)
    return spec.table[128 + std::clamp<int64_t>(rounding_shift(acc, spec.shift[0]), -128, 127)];
  return static_cast<int32_t>(
      std::clamp<int64_t>(zero_point + rounding_shift(acc * spec.multiplier[0], spec.shift[0]), spec.lo, spec.hi));
}

// A clamp, and a rescaling that is the same for all channels, is a lookup with one table.
void make_lookups(std::vector<Layer>& layers, const std::vector<Tensor>& tensors) {
  for (Layer& layer : layers) {
    const bool is_rescale = layer.kind == Kind::rescale && is_uniform(layer.requantize);
    if (layer.kind != Kind::clamp && !is_rescale) continue;
    const Tensor& input = tensors[layer.inputs[0]];
    const int32_t least = input.type.is_signed ? -128 : 0;
    for (int32_t x = least; x < least + 256; ++x) {
      const int32_t y = is_rescale ? requantized(layer.requantize, tensors[layer.output].type.zero_point,
                                                 x - input.type.zero_point)
                                   : std::clamp(x, layer.lo, layer.hi);
      layer.table.push_back(static_cast<int16_t>(y));
    }
    layer.kind = Kind::lookup;
  }
}

// Whether a layer's output can go through a table where it lies. Concatenations may not be copies at all.
bool takes_table(const Layer& layer, const std::vector<Tensor>& tensors) {
  const bool is_raw = layer.kind == Kind::conv && layer.requantize.kind == EM_RAW;
  return !is_raw && layer.kind != Kind::concat && layer.kind != Kind::lookup && part_channel(layer, tensors) < 0;
}

// A lookup that is the only reader of a layer runs on each row of its output.
std::vector<Layer> fuse_tables(std::vector<Layer> layers, const std::vector<int32_t>& outputs,
                               const std::vector<Tensor>& tensors, const Kernels& kernels) {
  const Readers readers = count_readers(layers, outputs);
  std::vector<bool> taken(layers.size(), false);
  for (size_t i = 0; i < layers.size(); ++i) {
    Layer& lookup = layers[i];
    if (lookup.kind != Kind::lookup || lookup.table.size() != 256 || readers.at(lookup.inputs[0]) != 1) continue;
    const int32_t before = find_writer(layers, taken, i, lookup.inputs[0]);
    if (before < 0 || !takes_table(layers[before], tensors)) continue;
    Layer& layer = layers[before];
    std::vector<uint8_t> table = library_table(lookup, tensors[lookup.output], kernels);
    if (layer.after.empty())
      layer.after = table;
    else
      for (uint8_t& entry : layer.after) entry = table[entry];
    layer.name += "+" + lookup.name;
    layer.output = lookup.output;
    taken[i] = true;
  }
  return without(std::move(layers), taken);
}

// What a gather by steps takes: the elements from (top, left, channel) on.
struct Phase {
  int32_t step_y, step_x, top, left, channel;
};

// The phase of a gather that takes each element of its rows and columns that a step reaches; step_y is 0 for others.
Phase phase_of(const Layer& gather, const std::vector<Tensor>& tensors) {
  if (gather.kind != Kind::gather || gather.places.rows[0] < 0) return {};
  const TensorType &from = tensors[gather.inputs[0]].type, &to = tensors[gather.output].type;
  const int32_t step_y = from.height / to.height, step_x = from.width / to.width;
  const auto& [rows, columns, channels] = gather.places;
  const bool fits = from.height == to.height * step_y && from.width == to.width * step_x &&
                    counts(rows, rows[0], step_y * from.width * from.channels) &&
                    counts(columns, 0, step_x * from.channels) &&
                    *std::max_element(channels.begin(), channels.end()) < from.channels;
  const Position start = position_of(rows[0], from);
  return fits ? Phase{step_y, step_x, start.y, start.x, start.channel} : Phase{};
}

// The convolution of a map that consists of phases, as a convolution of the map that they are taken from: a tap
// (ky, kx) of a phase that starts at (top, left) is the tap (ky * step_y + top, kx * step_x + left) of a kernel
// step_y x step_x times as large.
void convolve_source(Layer& conv, const std::vector<const Layer*>& gathers, const std::vector<Tensor>& tensors) {
  const auto [step_y, step_x, top, left, channel] = phase_of(*gathers[0], tensors);
  const int32_t depth = tensors[gathers[0]->inputs[0]].type.channels;
  const PaddedWindow from = conv.window;
  PaddedWindow& to = conv.window;
  to = {from.kernel_height * step_y, from.kernel_width * step_x, from.stride_y * step_y, from.stride_x * step_x,
        from.top * step_y, from.left * step_x, from.bottom * step_y, from.right * step_x, 1, 1};
  const auto outputs = static_cast<int64_t>(conv.bias.size());
  std::vector<int32_t> weights(outputs * to.kernel_height * to.kernel_width * depth, 0);
  const int32_t* weight = conv.weights.data();
  for (int64_t o = 0; o < outputs; ++o)
    for (int32_t ky = 0; ky < from.kernel_height; ++ky)
      for (int32_t kx = 0; kx < from.kernel_width; ++kx)
        for (const Layer* gather : gathers) {
          const Phase phase = phase_of(*gather, tensors);
          const int64_t row = o * to.kernel_height + ky * step_y + phase.top;
          const int64_t tap = row * to.kernel_width + kx * step_x + phase.left;
          for (const int32_t c : gather->places.channels) weights[tap * depth + phase.channel + c] += *weight++;
        }
  conv.weights = std::move(weights);
  conv.bases = {};
  conv.inputs[0] = gathers[0]->inputs[0];
}

// Space to depth, then a convolution: gathers by steps, a concatenation and their reader become one convolution.
std::vector<Layer> fuse_gathers(std::vector<Layer> layers, const std::vector<int32_t>& outputs,
                                const std::vector<Tensor>& tensors) {
  const Readers readers = count_readers(layers, outputs);
  std::vector<bool> taken(layers.size(), false);
  for (size_t i = 0; i < layers.size(); ++i) {
    Layer& conv = layers[i];
    if (conv.kind != Kind::conv || conv.groups != 1 || conv.window.dilation_y * conv.window.dilation_x != 1) continue;
    const int32_t joined = find_writer(layers, taken, i, conv.inputs[0]);
    if (joined < 0 || layers[joined].kind != Kind::concat || readers.at(conv.inputs[0]) != 1) continue;
    std::vector<int32_t> numbers;
    std::vector<const Layer*> gathers;
    for (int32_t part : layers[joined].inputs) {
      const int32_t number = find_writer(layers, taken, joined, part);
      if (number < 0 || readers.at(part) != 1) break;
      const Phase phase = phase_of(layers[number], tensors);
      const Layer& first = layers[numbers.empty() ? number : numbers[0]];
      if (phase.step_y * phase.step_x <= 1 || layers[number].inputs != first.inputs) break;
      numbers.push_back(number);
      gathers.push_back(&layers[number]);
    }
    if (gathers.size() != layers[joined].inputs.size()) continue;
    convolve_source(conv, gathers, tensors);
    taken[joined] = true;
    for (int32_t number : numbers) taken[number] = true;
  }
  return without(std::move(layers), taken);
}

}  // namespace

std::vector<uint8_t> library_table(const Layer& lookup, const Tensor& output, const Kernels& kernels) {
  std::vector<uint8_t> table(lookup.table.size());
  const size_t flip = kernels.is_signed ? 128 : 0;  // a layer's table begins with the least integer
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint8_t>(lookup.table[i ^ flip] + output.offset);
  return table;
}

std::vector<Layer> fuse(std::vector<Layer> layers, const std::vector<int32_t>& outputs,
                        const std::vector<Tensor>& tensors, const Kernels& kernels) {
  layers = fuse_gathers(std::move(layers), outputs, tensors);
  layers = fuse_sums(std::move(layers), outputs, kernels);
  make_lookups(layers, tensors);
  return fuse_tables(std::move(layers), outputs, tensors, kernels);
}

}  // namespace edgemeta
