// Fusion of layers, and the placement of tensors in memory.
#include <algorithm>
#include <map>
#include <tuple>

#include "program.h"

namespace edgemeta {
namespace {

// Number of layers that read each tensor; an output of the network has one additional reader.
std::map<int32_t, int32_t> count_readers(const std::vector<Layer>& layers, const std::vector<int32_t>& outputs) {
  std::map<int32_t, int32_t> readers;
  for (int32_t output : outputs) ++readers[output];
  for (const Layer& layer : layers)
    for (int32_t input : layer.inputs) ++readers[input];
  return readers;
}

// Index of the latest convolution into which `sum` can be fused, or -1.
int32_t find_partner(const std::vector<Layer>& layers, const std::vector<bool>& taken, size_t sum,
                     const std::map<int32_t, int32_t>& readers, const Kernels& kernels) {
  for (size_t i = sum; i-- > 0;) {
    const Layer& layer = layers[i];
    if (taken[i] || layer.requantize.kind == EM_RAW || layer.sum || !runs_fast(layer, kernels)) continue;
    if (layer.output != layers[sum].inputs[0] && layer.output != layers[sum].inputs[1]) continue;
    if (readers.at(layer.output) == 1) return static_cast<int32_t>(i);
  }
  return -1;
}

}  // namespace

std::vector<Layer> fuse_sums(std::vector<Layer> layers, const std::vector<int32_t>& outputs, const Kernels& kernels) {
  const std::map<int32_t, int32_t> readers = count_readers(layers, outputs);
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
  std::vector<Layer> left;
  for (size_t i = 0; i < layers.size(); ++i)
    if (!taken[i]) left.push_back(std::move(layers[i]));
  return left;
}

size_t plan_arena(std::vector<Tensor>& tensors, const std::vector<Layer>& layers, int32_t input,
                  const std::vector<int32_t>& outputs) {
  // Borders: as wide as the widest padding of a convolution or average pool that reads the tensor.
  for (const Layer& layer : layers) {
    if (layer.kind != Kind::conv && layer.kind != Kind::average_pool) continue;
    Tensor& read = tensors[layer.inputs[0]];
    read.top = std::max(read.top, layer.window.top);
    read.left = std::max(read.left, layer.window.left);
    read.bottom = std::max(read.bottom, layer.window.bottom);
    read.right = std::max(read.right, layer.window.right);
  }

  std::vector<int32_t> last_use(tensors.size(), -1);
  for (size_t i = 0; i < layers.size(); ++i)
    for (int32_t tensor : layers[i].inputs) last_use[tensor] = static_cast<int32_t>(i);
  for (int32_t output : outputs) last_use[output] = static_cast<int32_t>(layers.size());

  // Memory is reused only for the same layout and zero point, so that its border stays valid.
  using Layout = std::tuple<int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, int32_t, bool>;
  struct Place {
    Layout layout;
    int64_t start;
    int32_t busy_until;
  };
  std::vector<Place> places;
  int64_t size = 0;
  const auto place = [&](int32_t index, int32_t at) {
    Tensor& tensor = tensors[index];
    const em_tensor& type = tensor.type;
    View& view = tensor.view;
    const int32_t padded = (type.channels + kBlock - 1) / kBlock * kBlock;
    view.height = type.height;
    view.width = type.width;
    view.channels = type.channels;
    view.pixel = tensor.raw ? 4 * padded : index == input && type.channels <= 4 ? 4 : padded;
    view.row = int64_t{view.pixel} * (tensor.left + type.width + tensor.right);
    view.zero = type.zero_point + tensor.offset;
    view.lo = type.lo + tensor.offset;
    const int64_t before = tensor.top * view.row + int64_t{tensor.left} * view.pixel;
    tensor.bytes = view.row * (tensor.top + type.height + tensor.bottom);
    const Layout layout{type.height,   type.width,   view.pixel, tensor.top, tensor.left,
                        tensor.bottom, tensor.right, view.zero,  tensor.raw};
    Place* free = nullptr;
    for (Place& candidate : places)
      if (candidate.layout == layout && candidate.busy_until < at) free = &candidate;
    if (free == nullptr) {
      places.push_back({layout, size, 0});
      free = &places.back();
      size += (tensor.bytes + 63) / 64 * 64;
    }
    free->busy_until = last_use[index];
    tensor.start = free->start;
    view.origin = free->start + before;
  };
  place(input, -1);
  for (size_t i = 0; i < layers.size(); ++i) place(layers[i].output, static_cast<int32_t>(i));
  return static_cast<size_t>(size) + 64;  // vectors may read past the last pixel
}

}  // namespace edgemeta
