#include "complements.h"

#include <cstdlib>
#include <cstring>
#include <numeric>

#include "packing.h"

namespace edgemeta {
namespace {

// Sets of signs that are known relative to each other: a union-find whose links say if both ends are equal.
class RelativeSigns {
 public:
  explicit RelativeSigns(size_t count) : parents_(count), differs_(count, false) {
    std::iota(parents_.begin(), parents_.end(), size_t{0});
  }

  struct Root {
    size_t at;
    bool differs;  // from the sign that was asked for
  };

  Root root_of(size_t sign) {
    bool differs = false;
    size_t at = sign;
    for (; parents_[at] != at; at = parents_[at]) differs ^= differs_[at];
    parents_[sign] = at;
    differs_[sign] = differs;
    return {at, differs};
  }

  // Does nothing where a and b are already related, be it otherwise.
  void relate(size_t a, size_t b, bool differ) {
    const Root of_a = root_of(a), of_b = root_of(b);
    if (of_a.at == of_b.at) return;
    parents_[of_a.at] = of_b.at;
    differs_[of_a.at] = differ ^ of_a.differs ^ of_b.differs;
  }

 private:
  std::vector<size_t> parents_;
  std::vector<bool> differs_;
};

}  // namespace

Signs find_signs(const Layer& layer, const std::vector<bool>& is_fixed, const std::vector<bool>& is_free) {
  const size_t outputs = layer.bias.size(), inputs = layer.weights.size() / outputs, fixed = outputs + inputs;
  RelativeSigns signs(fixed + 1);  // of the outputs, of the inputs, and a positive one
  for (size_t o = 0; o < outputs; ++o) {
    if (is_free[o]) continue;
    if (is_fixed[o]) signs.relate(o, fixed, false);
    for (size_t i = 0; i < inputs; ++i) {
      const int32_t weight = layer.weights[o * inputs + i];
      if (std::abs(weight) == 128) signs.relate(o, outputs + i, weight > 0);
    }
  }
  // Of both ways to turn all signs of a set, the one that complements fewer inputs.
  std::vector<int64_t> excess(fixed + 1, 0);
  for (size_t i = 0; i < inputs; ++i) {
    const auto root = signs.root_of(outputs + i);
    excess[root.at] += root.differs ? 1 : -1;
  }
  const auto of_fixed = signs.root_of(fixed);
  const auto is_negative = [&](size_t sign) {
    const auto root = signs.root_of(sign);
    return root.at == of_fixed.at ? root.differs != of_fixed.differs : root.differs != (excess[root.at] > 0);
  };
  Signs found;
  for (size_t o = 0; o < outputs; ++o) found.negated.push_back(!is_free[o] && is_negative(o));
  for (size_t i = 0; i < inputs; ++i) found.complemented.push_back(is_negative(outputs + i));
  return found;
}

Layer with_complements(Layer layer, const std::vector<bool>& complemented) {
  for (size_t i = 0; i < layer.weights.size() && !complemented.empty(); ++i)
    if (complemented[i % complemented.size()]) layer.weights[i] *= -1;
  return layer;
}

uint32_t bias_of_complements(const Layer& layer, size_t output, const std::vector<bool>& complemented) {
  uint32_t sum = 0;
  for (size_t i = 0; i < complemented.size(); ++i)
    if (complemented[i]) sum += static_cast<uint32_t>(layer.weights[output * complemented.size() + i]);
  return 255 * sum;
}

std::vector<int32_t> masks_of(const Layer& layer, const Conv& conv, const std::vector<bool>& complemented) {
  Layer one = layer;  // an output whose weights are the bytes of the masks
  one.bias.resize(1);
  one.weights.clear();
  for (const bool each : complemented) one.weights.push_back(each ? -1 : 0);
  std::vector<int8_t> bytes(window_bytes(conv));
  pack_groups(one, conv, 4, bytes.data(), 1);
  std::vector<int32_t> masks(bytes.size() / 4);
  std::memcpy(masks.data(), bytes.data(), bytes.size());
  return masks;
}

}  // namespace edgemeta
