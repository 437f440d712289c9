#include "lowbit.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "winograd.h"

namespace edgemeta {
namespace {

// How many bits hold the integers 0 .. span.
int32_t width_of(int32_t span) {
  int32_t bits = 1;
  while (span >> bits) ++bits;
  return bits;
}

// The least width of two's complement that holds every weight.
int32_t weight_width(const std::vector<int32_t>& weights) {
  const auto [least, greatest] = std::minmax_element(weights.begin(), weights.end());
  int32_t bits = 1;
  while (*least < -(1 << (bits - 1)) || *greatest > (1 << (bits - 1)) - 1) ++bits;
  return bits;
}

// Calls visit(output channel, kernel row, run, index in the run, weight) for each weight.
template <typename Visit>
void for_each_weight(const Layer& layer, const Conv& conv, Visit visit) {
  const em_window& w = layer.window;
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

// One block after the other: [kernel rows][spans][span / group][16][group].
template <typename Weight>
void pack_groups(const Layer& layer, const Conv& conv, int32_t group, Weight* packed) {
  for_each_weight(layer, conv, [&](int32_t o, int32_t ky, int32_t span, int32_t in_span, int32_t weight) {
    const int64_t row = (int64_t{o / kBlock} * conv.window.height + ky) * conv.spans + span;
    const int64_t group_index = row * (conv.span / group) + in_span / group;
    packed[(group_index * kBlock + o % kBlock) * group + in_span % group] = static_cast<Weight>(weight);
  });
}

int32_t window_bytes(const Conv& conv) { return conv.window.height * conv.spans * conv.span; }

// Words of a bit plane of the window, for 64 inputs at a time.
int32_t words_of(const Conv& conv) { return (window_bytes(conv) + 63) / 64 * 2; }

// How many neighbouring steps of four inputs can be multiplied by bytes and summed in int16: none of the sums of
// products, positive and negative ones by themselves, passes 2**15 - 1. 0: not one step.
int32_t exact_steps(const Layer& layer, const Conv& conv, int32_t greatest_input) {
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
  return static_cast<int32_t>(count);
}

// The eight-bit code of each weight becomes streams of parts of 4, 2 and 1 bits (isa/lowbit/unpack.h).
void pack_parts(const uint8_t* codes, int64_t count, int32_t bits, uint8_t* packed) {
  int32_t at = 0;
  for (const int32_t part : {4, 2, 1}) {
    if (!(bits & part)) continue;
    const int64_t bytes = count * part / 8;
    for (int64_t i = 0; i < count; ++i)
      packed[i % bytes] |= static_cast<uint8_t>(((codes[i] >> at) & ((1 << part) - 1)) << (i / bytes * part));
    packed += bytes;
    at += part;
  }
}

// As Conv::has_lowest_pair, of packed weights.
bool has_lowest_pair(const int8_t* packed, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (i % 16 < 8 && packed[i] == -128 && packed[i + 8] == -128) return true;
  return false;
}

// Plane i holds bit i of each weight, or of its code.
Buffer pack_planes(const Layer& layer, const Conv& conv, const LowBits& low_bits) {
  const int64_t plane = int64_t{low_bits.words} * kBlock, block = plane * low_bits.weight_bits;
  Buffer weights(static_cast<size_t>(conv.out.blocks() * block * 4));
  auto* words = reinterpret_cast<uint32_t*>(weights.data());
  for_each_weight(layer, conv, [&](int32_t o, int32_t ky, int32_t span, int32_t in_span, int32_t weight) {
    const int32_t k = (ky * conv.spans + span) * conv.span + in_span;
    uint32_t* word = words + o / kBlock * block + k / 32 * kBlock + o % kBlock;
    for (int32_t i = 0; i < low_bits.weight_bits; ++i)
      word[i * plane] |= (static_cast<uint32_t>(weight) >> i & 1) << k % 32;
  });
  return weights;
}

// What the forms of a layer cost, for all pixels and each 32 inputs by 16 channels, in the units of FormCosts.
class Estimate {
 public:
  Estimate(const Conv& conv, const Kernels& kernels, int32_t weight_bits)
      : costs_(kernels.low_bit->costs),
        pixels_(double(conv.out.width) * conv.out.height),
        blocks_(conv.out.blocks()),
        inputs_(window_bytes(conv)),
        bytes_(kernels.weight_bytes),
        weight_bits_(weight_bits),
        parts_((weight_bits >> 2 & 1) + (weight_bits >> 1 & 1) + (weight_bits & 1)),
        filled_(window_bytes(conv) / (words_of(conv) * 32.0)),
        is_near_(double(window_bytes(conv)) * conv.out.blocks() * kBlock * bytes_ <= kFirstCache) {}

  double plain() const { return std::max(pixels_ * costs_.plain, loads(8 * bytes_)); }
  double packed() const { return pixels_ * costs_.plain + unpacking(bytes_); }
  double bytes(int32_t steps) const {
    const double start = costs_.bytes_start / (inputs_ / 32.0);
    return pixels_ * (costs_.bytes + costs_.bytes_widening / steps + start) + unpacking(1);
  }
  double planes(int32_t weight_planes, int32_t input_bits) const {
    const double cut = costs_.plane_cut * (input_bits + 2) / blocks_;
    const double counts = pixels_ * (costs_.plane_pair * weight_planes * input_bits + cut) / filled_;
    return std::max(counts, loads(weight_planes / filled_));
  }
  // The sum of a pixel's inputs takes about as long as cutting one plane more for each of theirs.
  double bases(int32_t count, int32_t input_bits) const {
    return planes(count, input_bits) + pixels_ * costs_.plane_cut * input_bits / blocks_ / filled_;
  }

 private:
  static constexpr double kFirstCache = 24 * 1024;

  double unpacking(int32_t to_bytes) const { return costs_.unpacking * (parts_ + 1) * to_bytes; }
  // Loading 512 weights of so many bits: 64 bytes for each bit.
  double loads(double bits) const { return is_near_ ? 0 : costs_.line * bits; }

  const FormCosts& costs_;
  double pixels_;
  int32_t blocks_, inputs_, bytes_, weight_bits_, parts_;
  double filled_;  // of the planes' words, which end at 64 inputs
  bool is_near_;   // the weights stay in the first cache
};

// `name`: what it does; its time as a share of the plain form's.
std::string description(const char* name, const std::string& what, double cost, const Estimate& estimate) {
  char text[200];
  std::snprintf(text, sizeof text, "%s: %s, about %.2f of the time of plain", name, what.c_str(),
                cost / estimate.plain());
  return text;
}

}  // namespace

PlaneFactors plane_factors(const Layer& layer, const Conv& conv, const LowBits& low_bits) {
  PlaneFactors found;
  const int32_t planes = low_bits.weight_bits, blocks = conv.out.blocks();
  found.factors.resize(int64_t{blocks} * planes * kBlock);
  if (!low_bits.by_bases) {
    for (int64_t at = 0; at < int64_t{blocks} * planes * kBlock; ++at) {
      const auto plane = static_cast<int32_t>(at / kBlock % planes);
      found.factors[at] = plane + 1 < planes ? 1 << plane : -(1 << plane);
    }
    return found;
  }
  // sum over b of c_b (2 m_b - 1) = sum over b of 2 c_b m_b, less the sum of the factors
  found.of_sum.resize(int64_t{blocks} * kBlock);
  found.present.resize(low_bits.words);
  for (int32_t o = 0; o < conv.out.channels; ++o)
    for (int32_t b = 0; b < planes; ++b) {
      const int32_t factor = layer.bases.factors[int64_t{o} * planes + b];
      found.factors[(int64_t{o / kBlock} * planes + b) * kBlock + o % kBlock] = 2 * factor;
      found.of_sum[o] -= factor;
    }
  for_each_weight(layer, conv, [&](int32_t, int32_t ky, int32_t span, int32_t in_span, int32_t) {
    const int32_t k = (ky * conv.spans + span) * conv.span + in_span;
    found.present[k / 32] |= uint32_t{1} << k % 32;
  });
  return found;
}

HighDigits split_digits(Layer& layer, Conv& conv) {
  const auto [least, greatest] = std::minmax_element(layer.weights.begin(), layer.weights.end());
  conv.digit_bits = *least >= -256 && *greatest <= 254 ? 0 : 8;
  std::vector<std::vector<int32_t>> digits;  // the lowest first
  std::vector<int32_t> rest = layer.weights;
  while (digits.empty() || std::any_of(rest.begin(), rest.end(), [](int32_t each) { return each != 0; })) {
    std::vector<int32_t> digit(rest.size());
    for (size_t i = 0; i < rest.size(); ++i) {
      digit[i] = conv.digit_bits == 0 ? std::clamp(rest[i], -128, 127) : ((rest[i] + 128) & 255) - 128;
      rest[i] = (rest[i] - digit[i]) / (1 << conv.digit_bits);
    }
    digits.push_back(std::move(digit));
  }
  HighDigits high;
  conv.high_digits = static_cast<int32_t>(digits.size()) - 1;
  const int64_t groups = window_bytes(conv) / 4, blocks = conv.out.blocks();
  high.at.resize(blocks * conv.high_digits);
  high.weights.resize(high.at.size());
  Layer part = layer;
  for (int32_t digit = 0; digit < conv.high_digits; ++digit) {
    part.weights = digits[digits.size() - 1 - digit];
    std::vector<int8_t> packed(blocks * groups * 64);
    pack_groups(part, conv, 4, packed.data());
    for (int64_t group = 0; group < blocks * groups; ++group) {
      const int8_t* from = packed.data() + group * 64;
      if (std::all_of(from, from + 64, [](int8_t each) { return each == 0; })) continue;
      const int64_t in_window = group % groups * 4, run = in_window / conv.span;
      const size_t list = group / groups * conv.high_digits + digit;
      high.at[list].push_back(run / conv.spans * conv.tap_row + run % conv.spans * conv.span_step +
                              in_window % conv.span);
      high.weights[list].insert(high.weights[list].end(), from, from + 64);
    }
  }
  for (size_t list = 0; list < high.at.size(); ++list)
    high.views.push_back({high.at[list].data(), high.weights[list].data(), static_cast<int32_t>(high.at[list].size())});
  conv.high = high.views.data();
  layer.weights = std::move(digits[0]);
  double besides = 0;  // the share of groups that are multiplied again
  for (const HighDigit& each : high.views) besides += double(each.count) / (blocks * groups);
  high.share = 1 + besides;
  if (conv.digit_bits == 0) {
    char text[80];
    std::snprintf(text, sizeof text, "digits: int8 weights, %.1f %% of them in two parts", 100 * besides);
    high.description = text;
  } else {
    high.description = "digits: weights as " + std::to_string(digits.size()) + " digits of int8";
  }
  return high;
}

namespace {

LowBits as_winograd(LowBits form, const Conv& conv, const Kernels& kernels) {
  form.form = EM_WINOGRAD;
  form.share = winograd_share(conv, kernels);
  char text[80];
  const int side = kernels.winograd_side;
  std::snprintf(text, sizeof text, "winograd: F(%d x %d), about %.2f of the time of plain", side, side, form.share);
  form.description = text;
  return form;
}

}  // namespace

bool replaced_by_winograd(const Layer& layer, const Conv& conv, const Kernels& kernels, LowBits& digits) {
  const bool is_free = layer.wanted_form == EM_FASTEST;
  if ((layer.wanted_form != EM_WINOGRAD && !is_free) || !fits_winograd(layer, conv, kernels)) return false;
  const LowBits winograd = as_winograd(digits, conv, kernels);
  if (is_free && winograd.share >= digits.share) return false;
  digits = winograd;
  return true;
}

LowBits choose_form(const Layer& layer, const Tensor& input, const Conv& conv, const Kernels& kernels) {
  constexpr double kWorth = 1.1;  // packed weights may cost so much more time than others
  const LowBitKernels& few = *kernels.low_bit;
  const std::string to = kernels.weight_bytes == 1 ? "int8" : "int16";
  LowBits plain;
  plain.weight_bits = weight_width(layer.weights);
  const int32_t span = input.type.hi - input.type.lo;
  plain.input_bits = input.is_given ? 8 : width_of(span);
  plain.description = "plain: " + to + " weights";
  const bool is_few = plain.weight_bits <= 7, is_free = layer.wanted_form == EM_FASTEST;
  const bool counts = plain.input_bits <= kMostInputPlanes && few.can_count_bits();
  const int32_t low = input.is_given ? 0 : input.type.lo + input.offset, bases = layer.bases.count;
  const Estimate estimate(conv, kernels, plain.weight_bits);
  std::vector<std::pair<double, LowBits>> choices{{estimate.plain(), plain}};
  if ((layer.wanted_form == EM_WINOGRAD || (is_free && !is_few)) && fits_winograd(layer, conv, kernels)) {
    const LowBits winograd = as_winograd(plain, conv, kernels);
    if (!is_free || winograd.share < 1) choices.push_back({estimate.plain() * winograd.share, winograd});
  }
  const std::string of_inputs = std::to_string(plain.input_bits) + " bit planes";
  if (counts && bases > 0) {
    LowBits planes = plain;
    planes.form = EM_PLANES;
    planes.by_bases = true;
    planes.weight_bits = bases;
    planes.low = low;
    planes.words = words_of(conv);
    const double cost = estimate.bases(bases, plain.input_bits);
    planes.description = description("planes", std::to_string(bases) + " bases x " + of_inputs, cost, estimate);
    choices.push_back({cost, planes});
  }
  if (is_few) {
    const std::string widths = std::to_string(plain.weight_bits) + "-bit";
    LowBits packed = plain;
    packed.form = EM_PACKED;
    packed.description = description("packed", widths + " weights unpacked to " + to, estimate.packed(), estimate);
    choices.push_back({estimate.packed(), packed});
    LowBits bytes = plain;
    bytes.form = EM_BYTES;
    bytes.low = low;
    bytes.steps = few.conv_bytes ? exact_steps(layer, conv, input.is_given ? 255 : span) : 0;
    if (bytes.steps > 0) {
      const double cost = estimate.bytes(bytes.steps);
      const std::string what = widths + " weights unpacked to int8, " + std::to_string(bytes.steps) + " steps in int16";
      bytes.description = description("bytes", what, cost, estimate);
      choices.push_back({cost, bytes});
    }
    if (counts) {
      LowBits planes = plain;
      planes.form = EM_PLANES;
      planes.low = low;
      planes.words = words_of(conv);
      const double cost = estimate.planes(plain.weight_bits, plain.input_bits);
      planes.description =
          description("planes", std::to_string(plain.weight_bits) + " x " + of_inputs, cost, estimate);
      choices.push_back({cost, planes});
    }
  }
  for (auto& [cost, choice] : choices) choice.share = cost / estimate.plain();
  for (const auto& [cost, choice] : choices)
    if (choice.form == layer.wanted_form) return choice;
  if (choices.size() == 1) return plain;
  // The fastest; but weights of eight or sixteen bits only where those of few bits cost clearly more, and binary bases
  // only where they are faster.
  const auto [cost, best] = *std::min_element(choices.begin() + 1, choices.end(),
                                             [](const auto& a, const auto& b) { return a.first < b.first; });
  if (cost <= estimate.plain() * (best.by_bases ? 1.0 : kWorth)) return best;
  plain.description += "; next: " + best.description;
  return plain;
}

Buffer pack_weights(const Layer& layer, Conv& conv, LowBits& low_bits, const Kernels& kernels) {
  const bool is_bytes = low_bits.form == EM_BYTES;
  const int64_t blocks = conv.out.blocks(), count = int64_t{window_bytes(conv)} * kBlock;
  conv.weight_bytes = is_bytes ? 1 : kernels.weight_bytes;
  conv.block_bytes = count * conv.weight_bytes;
  Buffer weights;
  if (low_bits.form == EM_WINOGRAD) {
    weights = pack_winograd(layer, conv, kernels);
    low_bits.weight_bytes = blocks * conv.block_bytes;
    return weights;
  }
  if (low_bits.form == EM_PLANES) {
    if (low_bits.by_bases) {
      Layer coded = layer;
      coded.weights = layer.bases.codes;
      weights = pack_planes(coded, conv, low_bits);
    } else {
      weights = pack_planes(layer, conv, low_bits);
    }
    low_bits.weight_bytes = blocks * low_bits.words * kBlock * 4 * low_bits.weight_bits;
    return weights;
  }
  const int32_t group = is_bytes ? 4 : kernels.weight_group;
  if (low_bits.form == EM_PLAIN) {
    low_bits.weight_bytes = blocks * conv.block_bytes;
    weights = Buffer(static_cast<size_t>(low_bits.weight_bytes));
    if (conv.weight_bytes == 1) {
      auto* packed = reinterpret_cast<int8_t*>(weights.data());
      pack_groups(layer, conv, group, packed);
      conv.has_lowest_pair = group == 16 && has_lowest_pair(packed, blocks * count);
    } else {
      pack_groups(layer, conv, group, reinterpret_cast<int16_t*>(weights.data()));
    }
    return weights;
  }
  conv.packed_bits = low_bits.weight_bits;
  const int64_t packed_bytes = count / 8 * conv.packed_bits;
  low_bits.weight_bytes = blocks * packed_bytes;
  weights = Buffer(static_cast<size_t>(low_bits.weight_bytes));
  std::vector<int8_t> codes(blocks * count);
  pack_groups(layer, conv, group, codes.data());
  for (int8_t& code : codes) code = static_cast<int8_t>(code + (1 << (conv.packed_bits - 1)));
  for (int64_t block = 0; block < blocks; ++block)
    pack_parts(reinterpret_cast<const uint8_t*>(codes.data()) + block * count, count, conv.packed_bits,
               weights.data() + block * packed_bytes);
  return weights;
}

}  // namespace edgemeta
