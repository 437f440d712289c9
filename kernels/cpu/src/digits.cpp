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

}  // namespace edgemeta
