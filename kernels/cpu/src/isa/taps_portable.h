// Taps of a depthwise convolution in plain C++, in loops that compilers vectorize.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// weights: int16 [blocks][taps][16]
struct Taps {
  static constexpr int kPixels = 1;

  const Depthwise& conv;
  const int16_t* weights;
  const int32_t* bias;

  Taps(const Depthwise& given, int32_t block)
      : conv(given),
        weights(static_cast<const int16_t*>(given.weights) + int64_t{block} * given.tap_count * kBlock),
        bias(given.bias + block * kBlock) {}

  void accumulate(const uint8_t* in, I32x16* acc) const {
    I32x16 sum = load(bias);
    const int16_t* weight = weights;
    for (int32_t tap = 0; tap < conv.tap_count; ++tap, weight += kBlock) {
      const uint8_t* x = in + conv.taps[tap];
      for (int i = 0; i < kBlock; ++i) sum.v[i] = wrap(bits(sum.v[i]) + bits(int32_t{weight[i]} * int32_t{x[i]}));
    }
    acc[0] = sum;
  }
};

constexpr int32_t kLeastTap = -32768, kGreatestTap = 32767;
bool fits_taps(const Depthwise&) { return true; }

size_t taps_bytes(const Depthwise& conv) {
  return size_t(conv.out.blocks()) * conv.tap_count * kBlock * sizeof(int16_t);
}

void pack_taps(const Depthwise& conv, const int32_t* weights, uint8_t* packed) {
  auto* to = reinterpret_cast<int16_t*>(packed);
  for (int32_t c = 0; c < conv.out.channels; ++c)
    for (int32_t tap = 0; tap < conv.tap_count; ++tap, ++weights)
      to[(int64_t{c / kBlock} * conv.tap_count + tap) * kBlock + c % kBlock] = static_cast<int16_t>(*weights);
}

template <typename Use>
inline void with_taps(const Depthwise&, Use use) {
  use(Type<Taps>());
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
