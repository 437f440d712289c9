#include "lowbit.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "narrow_sums.h"
#include "packing.h"
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
  double bytes(const NarrowSteps& narrow) const {
    const double products = narrow.sum_bytes == 1 ? costs_.bytes_in_int8 : costs_.bytes;
    const double start = costs_.bytes_start / (inputs_ / 32.0);
    const double time = pixels_ * (products + costs_.bytes_widening * narrow.widenings + start);
    return costs_.bytes_starts + (weight_bits_ < 8 ? time + unpacking(1) : std::max(time, loads(8)));
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

// The narrow sums that take the least time.
NarrowSteps narrow_steps(const Layer& layer, const Conv& conv, const Kernels& kernels, int32_t span,
                         const Estimate& estimate) {
  const NarrowSums& narrow = kernels.low_bit->narrow;
  if (!narrow.wraps) return saturating_steps(layer, conv, span);
  const NarrowSteps in_int8 = wrapping_steps(layer, conv, narrow, span, 1);
  const NarrowSteps in_int16 = wrapping_steps(layer, conv, narrow, span, 2);
  return in_int8.sum_bytes > 0 && estimate.bytes(in_int8) < estimate.bytes(in_int16) ? in_int8 : in_int16;
}

// `name`: what it does; its time as a share of the plain form's.
std::string description(const char* name, const std::string& what, double cost, const Estimate& estimate) {
  char text[200];
  std::snprintf(text, sizeof text, "%s: %s, about %.2f of the time of plain", name, what.c_str(),
                cost / estimate.plain());
  return text;
}

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
  constexpr double kWorth = 1.1;  // weights kept in few bits may cost so much more time than others
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
  if ((layer.wanted_form == EM_WINOGRAD || is_free) && fits_winograd(layer, conv, kernels)) {
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
  if (few.conv_bytes && (is_few || few.narrow.wraps)) {
    const NarrowSteps narrow = narrow_steps(layer, conv, kernels, input.is_given ? 255 : span, estimate);
    const double cost = narrow.sum_bytes > 0 ? estimate.bytes(narrow) : 0;
    // Weights of eight bits take no less memory so: other than on request they are for time alone.
    if (narrow.sum_bytes > 0 && (is_few || !is_free || cost < estimate.plain())) {
      LowBits bytes = plain;
      bytes.form = EM_BYTES;
      bytes.low = few.narrow.wraps ? (input.is_given ? 0 : low + below_middle(span)) : low;
      bytes.steps = narrow.steps;
      bytes.sum_bytes = narrow.sum_bytes;
      const std::string weights = is_few ? std::to_string(plain.weight_bits) + "-bit weights unpacked to int8" : "int8";
      const std::string sums = std::to_string(narrow.steps) + " steps in int" + std::to_string(8 * narrow.sum_bytes);
      bytes.description = description("bytes", weights + (is_few ? ", " : " weights, ") + sums, cost, estimate);
      choices.push_back({cost, bytes});
    }
  }
  if (is_few) {
    const std::string widths = std::to_string(plain.weight_bits) + "-bit";
    // AVX2's bytes take weights of up to 7 bits, and measured no slower.
    if (few.conv_bytes == nullptr || few.narrow.wraps) {
      LowBits packed = plain;
      packed.form = EM_PACKED;
      packed.description = description("packed", widths + " weights unpacked to " + to, estimate.packed(), estimate);
      choices.push_back({estimate.packed(), packed});
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
  // The fastest; but weights of eight or sixteen bits only where those of few bits cost clearly more.
  const auto price = [&](const std::pair<double, LowBits>& choice) {
    const int form = choice.second.form;
    const bool is_wide = form == EM_PLAIN || form == EM_WINOGRAD;
    return choice.first / (is_few && !is_wide && !choice.second.by_bases ? kWorth : 1.0);
  };
  std::stable_sort(choices.begin(), choices.end(),
                   [&](const auto& a, const auto& b) { return price(a) < price(b); });
  LowBits& best = choices.front().second;
  if (best.form == EM_PLAIN) best.description += "; next: " + choices[1].second.description;
  return best;
}

}  // namespace edgemeta
