#include "packing.h"

#include <algorithm>

#include "winograd.h"

namespace edgemeta {
namespace {

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

std::vector<uint8_t> lowest_pairs(const Conv& conv, const Buffer& weights) {
  const auto* packed = reinterpret_cast<const int8_t*>(weights.data());
  std::vector<uint8_t> found(conv.out.blocks());
  bool is_any = false;
  for (int64_t i = 0; i < conv.out.blocks() * conv.block_bytes; ++i) {
    if (i % 16 >= 8 || packed[i] != -128 || packed[i + 8] != -128) continue;
    found[i / conv.block_bytes] |= static_cast<uint8_t>(1 << i / 64 % 4);
    is_any = true;
  }
  return is_any ? found : std::vector<uint8_t>{};
}

int32_t most_words(const Buffer& weights, const LowBits& low_bits, int32_t blocks, int32_t always) {
  const int32_t words = low_bits.words;
  const int64_t planes = int64_t{blocks} * low_bits.weight_bits, lanes = kBlock * 4;
  const auto fits = [&](int32_t count) {
    for (int64_t plane = 0; plane < planes; ++plane)
      for (int64_t first = 0; first < words; first += count)
        for (int64_t lane = 0; lane < lanes; ++lane) {
          int32_t bits = 0;
          for (int64_t word = first; word < std::min<int64_t>(first + count, words); ++word)
            bits += __builtin_popcount(weights.data()[(plane * words + word) * lanes + lane]);
          if (bits > 255) return false;
        }
    return true;
  };
  for (int32_t parts = 1;; ++parts) {
    const int32_t count = (words + parts - 1) / parts;
    if (count <= always || fits(count)) return count;
  }
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
  const NarrowSums& narrow = kernels.low_bit->narrow;
  const int32_t group = is_bytes ? narrow.inputs : kernels.weight_group, outputs = is_bytes ? narrow.outputs : kBlock;
  if (low_bits.form == EM_PLAIN || low_bits.weight_bits == 8) {
    low_bits.weight_bytes = blocks * conv.block_bytes;
    weights = Buffer(static_cast<size_t>(low_bits.weight_bytes));
    if (conv.weight_bytes == 1) {
      pack_groups(layer, conv, group, reinterpret_cast<int8_t*>(weights.data()), outputs);
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
  pack_groups(layer, conv, group, codes.data(), outputs);
  for (int8_t& code : codes) code = static_cast<int8_t>(code + (1 << (conv.packed_bits - 1)));
  for (int64_t block = 0; block < blocks; ++block)
    pack_parts(reinterpret_cast<const uint8_t*>(codes.data()) + block * count, count, conv.packed_bits,
               weights.data() + block * packed_bytes);
  return weights;
}

}  // namespace edgemeta
