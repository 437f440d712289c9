// Placement of tensors in memory.
#include <algorithm>
#include <utility>

#include "program.h"

namespace edgemeta {
namespace {

bool is_whole_blocks(int32_t channels) { return channels % kBlock == 0; }

// The tensor whose memory a tensor lies in, itself unless it is a part; `channel` becomes its first channel there.
int32_t whole_of(const std::vector<Tensor>& tensors, int32_t tensor, int32_t& channel) {
  channel = 0;
  for (; tensors[tensor].whole >= 0; tensor = tensors[tensor].whole) channel += tensors[tensor].channel;
  return tensor;
}

std::vector<Layer> place_gathers(std::vector<Layer> layers, std::vector<Tensor>& tensors) {
  const auto is_part = [&](const Layer& layer) { return part_channel(layer, tensors) >= 0; };
  for (const Layer& layer : layers) {
    if (!is_part(layer)) continue;
    tensors[layer.output].whole = layer.inputs[0];
    tensors[layer.output].channel = part_channel(layer, tensors);
  }
  layers.erase(std::remove_if(layers.begin(), layers.end(), is_part), layers.end());
  return layers;
}

// An input of a concatenation that fills whole blocks, or ends the pixel, is written in its place: kernels write
// blocks. The copies of such inputs are left out, and concatenations without any other input.
std::vector<Layer> place_concats(std::vector<Layer> layers, std::vector<Tensor>& tensors, int32_t input) {
  std::vector<Layer> left;
  for (Layer& layer : layers) {
    if (layer.kind == Kind::concat) {
      std::vector<int32_t> copied, channels;
      int32_t channel = 0;
      for (size_t i = 0; i < layer.inputs.size(); ++i) {
        Tensor& part = tensors[layer.inputs[i]];
        const bool is_last = i + 1 == layer.inputs.size();
        const bool fits = is_whole_blocks(channel) && (is_last || is_whole_blocks(part.type.channels));
        if (fits && part.whole < 0 && layer.inputs[i] != input) {
          part.whole = layer.output;
          part.channel = channel;
        } else {
          copied.push_back(layer.inputs[i]);
          channels.push_back(channel);
        }
        channel += part.type.channels;
      }
      if (copied.empty()) continue;
      layer.inputs = copied;
      layer.channels = channels;
    }
    left.push_back(std::move(layer));
  }
  return left;
}

// Borders: as wide as the widest padding of a convolution or average pool that reads the tensor or a part of it.
void widen_borders(std::vector<Tensor>& tensors, const std::vector<Layer>& layers) {
  for (const Layer& layer : layers) {
    if (layer.kind != Kind::conv && layer.kind != Kind::average_pool) continue;
    int32_t channel = 0;
    Tensor& read = tensors[whole_of(tensors, layer.inputs[0], channel)];
    read.top = std::max(read.top, layer.window.top);
    read.left = std::max(read.left, layer.window.left);
    read.bottom = std::max(read.bottom, layer.window.bottom);
    read.right = std::max(read.right, layer.window.right);
  }
}

void lay_out(Tensor& tensor, bool is_input) {
  const TensorType& type = tensor.type;
  View& view = tensor.view;
  const int32_t padded = (type.channels + kBlock - 1) / kBlock * kBlock;
  view.height = type.height;
  view.width = type.width;
  view.channels = type.channels;
  view.pixel = tensor.raw ? 4 * padded : is_input && type.channels <= 4 ? 4 : padded;
  view.row = int64_t{view.pixel} * (tensor.left + type.width + tensor.right);
  view.zero = type.zero_point + tensor.offset;
  tensor.bytes = view.row * (tensor.top + type.height + tensor.bottom);
}

struct Life {
  int32_t first, last;  // numbers of layers, -1 for the input
};

// From the layer that first writes a tensor or a part of it to the last that reads one.
std::vector<Life> lives_of(const std::vector<Tensor>& tensors, const std::vector<Layer>& layers, int32_t input,
                           const std::vector<int32_t>& outputs) {
  const auto end = static_cast<int32_t>(layers.size());
  std::vector<Life> lives(tensors.size(), {end, -1});
  int32_t channel = 0;
  const auto life_of = [&](int32_t tensor) -> Life& { return lives[whole_of(tensors, tensor, channel)]; };
  for (int32_t i = 0; i < end; ++i) {
    Life& written = life_of(layers[i].output);
    written.first = std::min(written.first, i);
    written.last = std::max(written.last, i);
    for (int32_t tensor : layers[i].inputs) life_of(tensor).last = i;
  }
  life_of(input).first = -1;
  for (int32_t output : outputs) life_of(output).last = end;
  return lives;
}

int64_t rounded(int64_t bytes) { return (bytes + 63) / 64 * 64; }

void set_start(Tensor& tensor, int64_t start) {
  tensor.start = start;
  tensor.view.origin = start + tensor.top * tensor.view.row + int64_t{tensor.left} * tensor.view.pixel;
}

// The lowest place for tensor `number` of `wholes` beside those before it that live at the same time.
int64_t find_gap(const std::vector<Tensor>& tensors, const std::vector<Life>& lives, const std::vector<int32_t>& wholes,
                 size_t number, int64_t begin) {
  const Life life = lives[wholes[number]];
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (size_t i = 0; i < number; ++i) {
    const Life other = lives[wholes[i]];
    const Tensor& tensor = tensors[wholes[i]];
    if (other.first <= life.last && life.first <= other.last)
      taken.push_back({tensor.start, tensor.start + rounded(tensor.bytes)});
  }
  std::sort(taken.begin(), taken.end());
  const int64_t bytes = rounded(tensors[wholes[number]].bytes);
  int64_t start = begin;
  for (const auto& [from, to] : taken) {
    if (start + bytes <= from) break;
    start = std::max(start, to);
  }
  return start;
}

}  // namespace

int32_t part_channel(const Layer& layer, const std::vector<Tensor>& tensors) {
  if (layer.kind != Kind::gather || !layer.after.empty() || tensors[layer.inputs[0]].is_given) return -1;
  const TensorType &from = tensors[layer.inputs[0]].type, &to = tensors[layer.output].type;
  const int32_t first = layer.places.rows[0];
  const bool is_part = from.height == to.height && from.width == to.width && first < from.channels &&
                       is_whole_blocks(first) && counts(layer.places.rows, first, from.width * from.channels) &&
                       counts(layer.places.columns, 0, from.channels) && counts(layer.places.channels, 0, 1);
  return is_part ? first : -1;
}

std::vector<Layer> place_parts(std::vector<Layer> layers, std::vector<Tensor>& tensors, int32_t input) {
  for (Layer& layer : layers) {
    if (layer.kind != Kind::concat) continue;
    layer.channels.clear();
    int32_t channel = 0;
    for (int32_t part : layer.inputs) {
      layer.channels.push_back(channel);
      channel += tensors[part].type.channels;
    }
  }
  layers = place_gathers(std::move(layers), tensors);
  return place_concats(std::move(layers), tensors, input);
}

size_t plan_arena(std::vector<Tensor>& tensors, std::vector<Layer>& layers, int32_t input,
                  const std::vector<int32_t>& outputs) {
  widen_borders(tensors, layers);
  const std::vector<Life> lives = lives_of(tensors, layers, input, outputs);

  const auto end = static_cast<int32_t>(layers.size());
  std::vector<int32_t> wholes;
  int64_t greatest_pixel = 0;
  for (int32_t i = 0; i < static_cast<int32_t>(tensors.size()); ++i) {
    if (tensors[i].whole >= 0 || lives[i].first == end) continue;  // a part, or inside a fused layer
    lay_out(tensors[i], i == input);
    greatest_pixel = std::max<int64_t>(greatest_pixel, tensors[i].view.pixel);
    if (i != input) wholes.push_back(i);
  }
  // The greatest first: it leaves gaps for the others. The input keeps its memory, and its border.
  std::stable_sort(wholes.begin(), wholes.end(),
                   [&](int32_t a, int32_t b) { return tensors[a].bytes > tensors[b].bytes; });
  set_start(tensors[input], 0);
  const int64_t begin = rounded(tensors[input].bytes);
  int64_t size = begin;
  for (size_t i = 0; i < wholes.size(); ++i) {
    Tensor& tensor = tensors[wholes[i]];
    set_start(tensor, find_gap(tensors, lives, wholes, i, begin));
    size = std::max(size, tensor.start + rounded(tensor.bytes));
    const bool has_border = tensor.top + tensor.left + tensor.bottom + tensor.right > 0;
    if (has_border) layers[lives[wholes[i]].first].border_of = wholes[i];
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    Tensor& tensor = tensors[i];
    if (tensor.whole < 0) continue;
    int32_t channel = 0;
    tensor.view = tensors[whole_of(tensors, static_cast<int32_t>(i), channel)].view;
    tensor.view.channels = tensor.type.channels;
    tensor.view.origin += channel;
  }
  // Vectors may read past the last pixel: kernels of depthwise convolutions some pixels.
  return static_cast<size_t>(size + kReadAhead * greatest_pixel + 64);
}

}  // namespace edgemeta
