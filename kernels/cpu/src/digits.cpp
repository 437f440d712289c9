#include <algorithm>
#include <cstdio>

#include "packing.h"

namespace edgemeta {

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
  std::vector<std::vector<int8_t>> packed;  // the highest digit first
  Layer part = layer;
  for (int32_t digit = conv.high_digits; digit > 0; --digit) {
    part.weights = digits[digit];
    packed.emplace_back(blocks * groups * 64);
    pack_groups(part, conv, 4, packed.back().data());
  }
  std::vector<const int8_t*> taken;
  std::vector<int32_t> counts;
  for (int64_t block = 0; block < blocks; ++block)
    for (const std::vector<int8_t>& of_digit : packed) {
      const size_t before = taken.size();
      for (int64_t group = 0; group < groups; ++group) {
        const int8_t* from = of_digit.data() + (block * groups + group) * 64;
        if (std::all_of(from, from + 64, [](int8_t each) { return each == 0; })) continue;
        const int64_t run = group * 4 / conv.span;
        high.at.push_back(run / conv.spans * conv.tap_row + run % conv.spans * conv.span_step + group * 4 % conv.span);
        high.complements.push_back(conv.complements == nullptr ? 0 : conv.complements[group]);
        taken.push_back(from);
      }
      counts.push_back(static_cast<int32_t>(taken.size() - before));
    }
  high.weights = Buffer(taken.size() * 64);
  auto* weights = reinterpret_cast<int8_t*>(high.weights.data());
  for (size_t i = 0; i < taken.size(); ++i) std::copy_n(taken[i], 64, weights + i * 64);
  int64_t first = 0;
  for (const int32_t count : counts) {
    high.views.push_back({high.at.data() + first, high.complements.data() + first, weights + first * 64, count});
    first += count;
  }
  conv.high = high.views.data();
  layer.weights = std::move(digits[0]);
  const double besides = double(taken.size()) / (blocks * groups);  // the share of groups that are multiplied again
  high.share = 1 + besides;
  if (conv.high_digits == 0) {
    high.description = "plain: int8 weights";
  } else if (conv.digit_bits == 0) {
    char text[80];
    std::snprintf(text, sizeof text, "digits: int8 weights, %.1f %% of them in two parts", 100 * besides);
    high.description = text;
  } else {
    high.description = "digits: weights as " + std::to_string(digits.size()) + " digits of int8";
  }
  return high;
}

}  // namespace edgemeta
