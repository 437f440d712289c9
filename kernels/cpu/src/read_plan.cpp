// Reads a plan and proves it: the mathematics is that of model/prove.py, so that any bytes can be given.
#include <algorithm>
#include <cstdlib>
#include <utility>

#include "bytes.h"
#include "edgemeta_cpu.h"
#include "program.h"

namespace edgemeta {
namespace {

constexpr int32_t kMagic = 0x4c504d45;  // "EMPL"
constexpr int64_t kMostSide = 1 << 16, kMostElements = 1 << 28, kMostLayers = 4096, kMostOutputs = 64;
constexpr int64_t kMostNameBytes = 1 << 20, kMostBases = 8, kMostMultiplier = 1 << 21, kBilinearOne = 1 << 11;
constexpr int64_t kMostPower = 1 << 20, kMostNormalized = 1 << 20;
constexpr int64_t kAny = Bytes::kAny, kLeast = Bytes::kLeast, kGreatest = Bytes::kGreatest;

bool has_size(const TensorType& type, int64_t height, int64_t width) {
  return type.height == height && type.width == width;
}

void require_shape(const TensorType& type, int64_t height, int64_t width, int64_t channels) {
  require(has_size(type, height, width) && type.channels == channels, "the output has another shape");
}

// The layer moves integers, which so keep their meaning.
void require_same_integers(const TensorType& a, const TensorType& b) {
  const bool is_same = a.is_signed == b.is_signed && a.zero_point == b.zero_point && a.lo == b.lo && a.hi == b.hi;
  require(is_same, "the output has another quantization");
}

TensorType read_type(Bytes& in) {
  TensorType type{};
  for (int32_t* side : {&type.height, &type.width, &type.channels}) *side = in.number("a side", 1, kMostSide);
  type.is_signed = in.number("the sign", 0, 1);
  const int32_t least = type.is_signed ? -128 : 0;
  type.lo = in.number("the least integer", least, least + 255);
  type.hi = in.number("the greatest integer", type.lo, least + 255);
  type.zero_point = in.number("the zero point", type.lo, type.hi);
  return type;
}

RequantizeSpec read_requantize(Bytes& in, const TensorType& output, int32_t first_kind) {
  RequantizeSpec spec;
  const int64_t channels = output.channels;
  spec.kind = in.number("the kind of requantization", first_kind, EM_TABLE);
  if (spec.kind != EM_RAW) spec.shift = in.numbers<uint8_t>("shift", channels, 0, spec.kind == EM_TABLE ? 31 : 62);
  if (spec.kind == EM_TABLE) spec.table = in.numbers<int16_t>("table", channels * 256, output.lo, output.hi);
  if (spec.kind == EM_MULTIPLIER) {
    spec.multiplier = in.numbers<int32_t>("multiplier", channels, 0, kGreatest);
    spec.lo = in.number("lo", output.lo, output.hi);
    spec.hi = in.number("hi", spec.lo, output.hi);
  }
  return spec;
}

// Steps of one plan, one after the other: a layer with those that are fused into it.
class Reader {
 public:
  Reader(Bytes& in, Plan& plan) : in_(in), plan_(plan) { written_.push_back(add(read_type(in_), false)); }

  void read_step() {
    Layer& layer = plan_.layers.emplace_back();
    layer.name = read_name();
    try {
      read_fields(layer);
      if (layer.kind == Kind::conv && in_.number("whether a sum follows", 0, 1) == 1) read_sum(layer);
      if (in_.number("whether a table follows", 0, 1) == 1) read_table(layer);
      written_.push_back(layer.output);
    } catch (const std::runtime_error& error) {
      throw std::runtime_error("layer '" + layer.name + "': " + error.what());
    }
  }

  int32_t written(int32_t number) const { return written_[static_cast<size_t>(number)]; }

 private:
  std::string read_name() { return in_.text("the name", kMostNameBytes); }

  void read_fields(Layer& layer) {
    layer.kind = static_cast<Kind>(in_.number("the operator", 0, static_cast<int32_t>(Kind::constant)));
    const bool takes_two = 
        layer.kind == Kind::sum || layer.kind == Kind::product || layer.kind == Kind::matmul;
    layer.inputs = in_.numbers<int32_t>("the inputs", layer.kind == Kind::concat ? kAny : 1 + takes_two, 0,
                                        static_cast<int64_t>(written_.size()) - 1);
    require(!layer.inputs.empty(), "there is no input");
    for (int32_t& input : layer.inputs) input = read_by_a_layer(written(input));
    const TensorType output = read_type(in_), input = plan_.tensors[layer.inputs[0]];
    read_operator(layer, input, output);
    layer.output = layer.computed = add(output, layer.kind == Kind::conv && layer.requantize.kind == EM_RAW);
  }

  // The sum of a convolution and another tensor, computed with it.
  void read_sum(Layer& layer) {
    auto sum = std::make_shared<Layer>();
    sum->kind = Kind::sum;
    sum->name = read_name();
    layer.sum_operand = in_.number("the operand", 0, 1);
    const int32_t other = written(in_.number("the other operand", 0, static_cast<int64_t>(written_.size()) - 1));
    sum->inputs = {read_by_a_layer(other), read_by_a_layer(other)};
    sum->inputs[static_cast<size_t>(layer.sum_operand)] = read_by_a_layer(layer.output);
    const TensorType output = read_type(in_);
    read_operator(*sum, plan_.tensors[other], output);
    layer.inputs.push_back(other);
    layer.output = sum->output = sum->computed = add(output, false);
    layer.sum = std::move(sum);
  }

  // The tables of all layers of one element that follow.
  void read_table(Layer& layer) {
    require(layer.kind != Kind::concat, "a table follows a concatenation");
    layer.after_name = read_name();
    const TensorType from = plan_.tensors[read_by_a_layer(layer.output)], to = read_type(in_);
    layer.after = read_tables(to);
    require_equal_shape(from, to);
    layer.output = add(to, false);
  }

  // One table, or one for each channel, of the output's integers, less 128 if they are unsigned.
  std::vector<int8_t> read_tables(const TensorType& to) {
    const int32_t offset = to.is_signed ? 0 : 128;
    std::vector<int8_t> tables = in_.numbers<int8_t>("table", kAny, to.lo - offset, to.hi - offset);
    require(tables.size() == 256 || tables.size() == size_t(256) * to.channels,
            "table has neither 256 entries nor as many for each channel");
    return tables;
  }

  int32_t read_by_a_layer(int32_t tensor) const {
    require(!raw_[static_cast<size_t>(tensor)], "an input has raw sums");
    return tensor;
  }

  int32_t add(const TensorType& type, bool is_raw) {
    count(int64_t{type.height} * type.width * type.channels);
    plan_.tensors.push_back(type);
    raw_.push_back(is_raw);
    return static_cast<int32_t>(plan_.tensors.size()) - 1;
  }

  void read_operator(Layer& layer, const TensorType& from, const TensorType& to) {
    switch (layer.kind) {
      case Kind::conv:
        return read_conv(layer, from, to);
      case Kind::sum:
        layer.multiplier_a = in_.number("a multiplier", 0, kMostMultiplier);
        layer.multiplier_b = in_.number("a multiplier", 0, kMostMultiplier);
        layer.shift = in_.number("shift", 0, 29);
        read_range(layer, to);
        for (const int32_t input : layer.inputs) require_equal_shape(plan_.tensors[input], to);
        return;
      case Kind::rescale:
        layer.requantize = read_requantize(in_, to, EM_MULTIPLIER);
        return require_equal_shape(from, to);
      case Kind::max_pool:
        read_window(layer, from, to, from.channels);
        return require_same_integers(from, to);
      case Kind::average_pool: {
        read_window(layer, from, to, from.channels);
        layer.inside = in_.number("what an average is of", 0, 1) != 0;
        for (int32_t* share : {&layer.share_y, &layer.share_x})
          *share = in_.number("what an average is divided by", 1, kGreatest);
        const int64_t area = int64_t{layer.share_y} * layer.share_x;
        require(area <= kGreatest && area * std::max(from.zero_point - from.lo, from.hi - from.zero_point) <= kGreatest,
                "the sums leave int32");
        layer.requantize = read_requantize(in_, to, EM_MULTIPLIER);
        return;
      }
      case Kind::concat: {
        int64_t channels = 0;
        for (const int32_t input : layer.inputs) {
          const TensorType& part = plan_.tensors[input];
          require(has_size(part, to.height, to.width), "the inputs and the output have different sizes");
          require_same_integers(part, to);
          channels += part.channels;
        }
        return require_shape(to, from.height, from.width, channels);
      }
      case Kind::lookup:
        layer.table = read_tables(to);
        return require_equal_shape(from, to);
      case Kind::product: {
        const TensorType& other = plan_.tensors[layer.inputs[1]];
        require((has_size(other, 1, 1) || has_size(other, from.height, from.width)) && other.channels == from.channels,
                "the factors have another shape");
        layer.requantize = read_requantize(in_, to, EM_MULTIPLIER);
        return require_equal_shape(from, to);
      }
      case Kind::bilinear:
        layer.rows = read_neighbours(from.height, to.height);
        layer.columns = read_neighbours(from.width, to.width);
        require_same_integers(from, to);
        return require_shape(to, to.height, to.width, from.channels);
      case Kind::gather:
        require_same_integers(from, to);
        return read_places(layer.places, from, to);
      case Kind::matmul:
        return read_matmul(layer, from, plan_.tensors[layer.inputs[1]], to);
      case Kind::softmax:
        layer.groups = in_.number("groups", 1, to.channels);
        require(to.channels % layer.groups == 0, "the channels are no multiple of the groups");
        layer.powers = in_.numbers<int32_t>("exponentials", 256, 0, kMostPower);
        require(layer.powers[0] > 0, "the first one of the exponentials is 0");
        layer.multiplier_a = in_.number("the multiplier", 0);
        return require_equal_shape(from, to);
      case Kind::normalize:
        return read_normalize(layer, from, to);
      case Kind::constant:
        for (const int32_t value :
             in_.numbers<int32_t>("values", int64_t{to.height} * to.width * to.channels, to.lo, to.hi))
          layer.values.push_back(static_cast<uint8_t>(value));
        return;
    }
  }

  static int64_t greatest_distance(const TensorType& type) {
    return std::max(type.zero_point - type.lo, type.hi - type.zero_point);
  }

  // layers/attention.MatMul
  void read_matmul(Layer& layer, const TensorType& a, const TensorType& b, const TensorType& to) {
    layer.groups = in_.number("heads", 1, kMostSide);
    layer.transposed = in_.number("whether it is transposed", 0, 1) == 1;
    layer.requantize = read_requantize(in_, to, EM_MULTIPLIER);
    const int64_t heads = layer.groups, positions = int64_t{b.height} * b.width;
    require(a.channels % heads == 0 && b.channels % heads == 0, "the channels are no multiples of the heads");
    require(a.channels == (layer.transposed ? b.channels : heads * positions), "the operands do not fit");
    require_shape(to, a.height, a.width, layer.transposed ? heads * positions : b.channels);
    require(a.channels / heads * greatest_distance(a) * greatest_distance(b) <= kGreatest, "a sum may leave int32");
    count(positions * b.channels);
  }

  // layers/normalize.Normalize
  void read_normalize(Layer& layer, const TensorType& from, const TensorType& to) {
    layer.whole = in_.number("whether it is of the whole map", 0, 1) == 1;
    layer.epsilon = int64_t{in_.number("the upper part of epsilon", 0, 1 << 26)} << 30;
    layer.epsilon += in_.number("the lower part of epsilon", 0, (1 << 30) - 1);
    require_between(layer.epsilon, 1, int64_t{1} << 56, "epsilon");
    layer.weights = in_.numbers<int32_t>("factors", to.channels, -128, 127);
    layer.bias = in_.numbers<int32_t>("bias", to.channels, kLeast, kGreatest);
    layer.requantize = read_requantize(in_, to, EM_MULTIPLIER);
    require_equal_shape(from, to);
    const int64_t elements = layer.whole ? int64_t{from.height} * from.width * from.channels : from.channels;
    require(elements <= kMostNormalized, "too many elements are normalized together");
    int64_t root = 1;
    while (root * root <= elements) ++root;
    for (size_t c = 0; c < layer.weights.size(); ++c)
      require(std::abs(int64_t{layer.bias[c]}) + std::abs(int64_t{layer.weights[c]}) * (root << 14) <= kGreatest,
              "a sum may leave int32");
  }

  void read_places(Places& places, const TensorType& from, const TensorType& to) {
    const int64_t last = int64_t{from.height} * from.width * from.channels - 1;
    places.rows = in_.numbers<int32_t>("the rows", to.height, -1, last);
    places.columns = in_.numbers<int32_t>("the columns", to.width, -1, last);
    places.channels = in_.numbers<int32_t>("the channels", to.channels, 0, last);
    int64_t y = 0, x = 0, channel = 0;
    for (const std::vector<int32_t>* list : {&places.rows, &places.columns, &places.channels}) {
      Position greatest{};
      for (const int32_t element : *list) {
        const Position position = position_of(std::max(element, 0), from);
        greatest.y = std::max(greatest.y, position.y);
        greatest.x = std::max(greatest.x, position.x);
        greatest.channel = std::max(greatest.channel, position.channel);
      }
      y += greatest.y;
      x += greatest.x;
      channel += greatest.channel;
    }
    require(y < from.height && x < from.width && channel < from.channels, "an element lies beyond the input");
  }

  void read_conv(Layer& layer, const TensorType& from, const TensorType& to) {
    read_window(layer, from, to, to.channels);
    const PaddedWindow& window = layer.window;
    const int64_t outputs = to.channels;
    layer.groups = in_.number("groups", 1, to.channels);
    require(from.channels % layer.groups == 0 && outputs % layer.groups == 0,
            "the channels are no multiples of the groups");
    layer.wanted_form = in_.number("the form", EM_FASTEST, EM_WINOGRAD);
    layer.bases.count = in_.number("the number of bases", 0, kMostBases);
    const int64_t taps = int64_t{window.kernel_height} * window.kernel_width * (from.channels / layer.groups);
    require(taps * outputs <= kGreatest, "there are too many weights");
    if (layer.bases.count == 0) {
      layer.weights = in_.numbers<int32_t>("weights", taps * outputs, kLeast, kGreatest);
    } else {
      layer.bases.codes = in_.numbers<int32_t>("weights", taps * outputs, 0, (1 << layer.bases.count) - 1);
      layer.bases.factors = in_.numbers<int32_t>("factors", outputs * layer.bases.count, INT16_MIN, INT16_MAX);
      layer.weights = sums_of_bases(layer.bases, outputs);
    }
    layer.bias = in_.numbers<int32_t>("bias", kAny, kLeast, kGreatest);
    require(layer.bias.empty() || int64_t(layer.bias.size()) == outputs, "bias has another number of values");
    layer.bias.resize(static_cast<size_t>(outputs), 0);
    layer.requantize = read_requantize(in_, to, EM_RAW);
    for (int64_t o = 0; o < outputs; ++o) require_sums_fit(from, &layer.weights[o * taps], taps, layer.bias[o]);
  }

  static std::vector<int32_t> sums_of_bases(const Bases& bases, int64_t outputs) {
    std::vector<int32_t> weights(bases.codes.size());
    for (size_t i = 0; i < weights.size(); ++i) {
      const int32_t* factors = &bases.factors[i / (weights.size() / outputs) * bases.count];
      for (int32_t b = 0; b < bases.count; ++b) weights[i] += bases.codes[i] >> b & 1 ? factors[b] : -factors[b];
    }
    return weights;
  }

  // layers/bounds.prove_accumulators
  static void require_sums_fit(const TensorType& from, const int32_t* weights, int64_t count, int64_t bias) {
    int64_t positive = 0, negative = 0;
    for (int64_t i = 0; i < count; ++i) (weights[i] > 0 ? positive : negative) += weights[i];
    const int64_t below = from.lo - from.zero_point, above = from.hi - from.zero_point;
    require(bias + positive * below + negative * above >= kLeast &&
                bias + positive * above + negative * below <= kGreatest,
            "a sum may leave int32");
  }

  void read_window(Layer& layer, const TensorType& from, const TensorType& to, int64_t channels) {
    PaddedWindow& w = layer.window;
    read_pair("a side of the kernel", 1, w.kernel_height, w.kernel_width);
    read_pair("a stride", 1, w.stride_y, w.stride_x);
    for (int32_t* amount : {&w.top, &w.left, &w.bottom, &w.right}) *amount = in_.number("padding", 0);
    read_pair("a dilation", 1, w.dilation_y, w.dilation_x);
    if (layer.kind != Kind::conv) {
      require(w.dilation_y == 1 && w.dilation_x == 1, "a pool is dilated");
      require(std::max(w.top, w.bottom) < w.kernel_height && std::max(w.left, w.right) < w.kernel_width,
              "the padding is not less than the kernel");
    }
    if (w.kernel_height == 1) w.dilation_y = 1;
    if (w.kernel_width == 1) w.dilation_x = 1;
    const int64_t height = places(from.height, w.kernel_height, w.dilation_y, w.stride_y, w.top, w.bottom);
    const int64_t width = places(from.width, w.kernel_width, w.dilation_x, w.stride_x, w.left, w.right);
    require_shape(to, height, width, channels);
    const int64_t rows = int64_t{from.height} + w.top + w.bottom, columns = int64_t{from.width} + w.left + w.right;
    require(rows <= kMostElements && rows * columns <= kMostElements, "the padding is too large");
    count(rows * columns * from.channels);
  }

  // layers/operator.slide, but that a window of a convolution may lie in the padding: its sum is the bias.
  static int64_t places(int64_t side, int64_t kernel, int64_t dilation, int64_t stride, int64_t before, int64_t after) {
    const int64_t covered = (kernel - 1) * dilation + 1, free = side + before + after - covered;
    require(free >= 0, "the kernel is larger than the padded input");
    return free / stride + 1;
  }

  NeighbourLists read_neighbours(int64_t source, int64_t target) {
    NeighbourLists axis;
    axis.lower = in_.numbers<int32_t>("the lower neighbours", target, 0, source - 1);
    axis.upper = in_.numbers<int32_t>("the upper neighbours", target, 0, source - 1);
    axis.weight = in_.numbers<int32_t>("the weights of neighbours", target, 0, kBilinearOne);
    return axis;
  }

  void read_pair(const char* what, int64_t lo, int32_t& y, int32_t& x) {
    y = in_.number(what, lo, kMostSide);
    x = in_.number(what, lo, kMostSide);
  }

  void read_range(Layer& layer, const TensorType& to) {
    layer.lo = in_.number("lo", to.lo, to.hi);
    layer.hi = in_.number("hi", layer.lo, to.hi);
  }

  static void require_equal_shape(const TensorType& from, const TensorType& to) {
    require_shape(to, from.height, from.width, from.channels);
  }

  void count(int64_t elements) {
    elements_ += elements;
    require(elements_ <= kMostElements, "the tensors have too many elements together");
  }

  Bytes& in_;
  Plan& plan_;
  std::vector<int32_t> written_;  // the input, and what each step leaves
  std::vector<bool> raw_;  // tensors that hold raw sums, which only the caller can read
  int64_t elements_ = 0;
};

}  // namespace

Plan read_plan(const uint8_t* bytes, size_t length) {
  Bytes in(bytes, length);
  Plan plan;
  in.number("the mark at the start", kMagic, kMagic);
  in.number("the version", EM_ABI_VERSION, EM_ABI_VERSION);
  Reader reader(in, plan);
  const int32_t steps = in.number("the number of steps", 1, kMostLayers);
  for (int32_t i = 0; i < steps; ++i) reader.read_step();
  plan.outputs = in.numbers<int32_t>("the outputs", kAny, 1, steps);
  for (int32_t& output : plan.outputs) output = reader.written(output);
  in.end();
  require_between(static_cast<int64_t>(plan.outputs.size()), 1, kMostOutputs, "the number of outputs");
  std::vector<int32_t> sorted = plan.outputs;
  std::sort(sorted.begin(), sorted.end());
  require(std::adjacent_find(sorted.begin(), sorted.end()) == sorted.end(), "an output occurs twice");
  return plan;
}

}  // namespace edgemeta
