// Weights of 1 to 7 bits, packed in memory, become the int8 or int16 weights that the tiles read.
//
// A block of `count` weights (a multiple of 64) is the sum of its parts of 4, 2 and 1 bits: 7 = 4 + 2 + 1, 5 = 4 + 1.
// A part of b bits is a stream of count * b / 8 bytes; byte t holds the bits of the weights t, t + count * b / 8,
// t + 2 * count * b / 8, ... from the lowest bit on. So eight neighbouring weights are one word of each stream, shifted
// and masked: two instructions for each part. The code of a weight w is w + 2**(bits - 1).
#pragma once

#include "../../kernels.h"
#include "../vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

inline uint64_t word_at(const uint8_t* p) {
  uint64_t word;
  memcpy(&word, p, 8);
  return word;
}

// Eight weights of the part of PART bits that begins at bit AT of the code, from field FIELD of a stream's bytes.
template <int PART, int AT, int FIELD>
INLINE inline uint64_t part_of(const uint8_t* stream) {
  constexpr int kShift = FIELD * PART - AT;
  constexpr uint64_t kMask = uint64_t{((1u << PART) - 1) << AT} * 0x0101010101010101u;
  const uint64_t word = word_at(stream);
  if constexpr (kShift >= 0)
    return (word >> kShift) & kMask;
  else
    return (word << -kShift) & kMask;
}

// An eighth of the weights: those from EIGHTH * count / 8 on.
template <int BITS, int EIGHTH>
INLINE inline void unpack_eighth(const uint8_t* packed, int64_t count, int8_t* out) {
  constexpr int kFour = BITS & 4, kTwo = BITS & 2, kOne = BITS & 1;
  const int64_t eighth = count / 8;
  const uint8_t* fours = packed + EIGHTH % 4 * eighth;
  const uint8_t* twos = packed + kFour * eighth + EIGHTH % 2 * eighth;
  const uint8_t* ones = packed + (kFour + kTwo) * eighth;
  constexpr uint64_t kOnes = 0x0101010101010101u, kTop = 0x80 * kOnes, kOffset = (uint64_t{1} << (BITS - 1)) * kOnes;
  for (int64_t t = 0; t < eighth; t += 8) {
    uint64_t code = 0;
    if constexpr (kFour) code |= part_of<4, 0, EIGHTH / 4>(fours + t);
    if constexpr (kTwo) code |= part_of<2, kFour, EIGHTH / 2>(twos + t);
    if constexpr (kOne) code |= part_of<1, kFour + kTwo, EIGHTH>(ones + t);
    // code - 2**(BITS - 1) in each byte: the top bit keeps the subtraction from borrowing, then is taken out again.
    const uint64_t weights = ((code | kTop) - kOffset) ^ kTop;
    memcpy(out + EIGHTH * eighth + t, &weights, 8);
  }
}

template <int BITS>
void unpack(const uint8_t* packed, int64_t count, int8_t* out) {
  unrolled<8>([&](auto eighth) INLINE { unpack_eighth<BITS, eighth.value>(packed, count, out); });
}

constexpr void (*kUnpack[8])(const uint8_t*, int64_t, int8_t*) = {
    nullptr, unpack<1>, unpack<2>, unpack<3>, unpack<4>, unpack<5>, unpack<6>, unpack<7>};

// Bytes that unpack_blocks needs: the weights and, if they are int16, a block of int8.
inline size_t unpack_scratch(const Conv& conv, int32_t blocks) {
  return static_cast<size_t>(conv.block_bytes * blocks + (conv.weight_bytes == 2 ? conv.block_bytes / 2 : 0));
}

// The weights of some blocks as the tiles read them.
inline void unpack_blocks(const Conv& conv, int32_t block, int32_t blocks, uint8_t* out) {
  const int64_t count = conv.block_bytes / conv.weight_bytes, packed_bytes = count / 8 * conv.packed_bits;
  int8_t* bytes = reinterpret_cast<int8_t*>(out + (conv.weight_bytes == 2 ? conv.block_bytes * blocks : 0));
  for (int32_t n = 0; n < blocks; ++n, out += conv.block_bytes) {
    const uint8_t* packed = static_cast<const uint8_t*>(conv.weights) + (block + n) * packed_bytes;
    if (conv.weight_bytes == 1) {
      kUnpack[conv.packed_bits](packed, count, reinterpret_cast<int8_t*>(out));
      continue;
    }
    kUnpack[conv.packed_bits](packed, count, bytes);
    int16_t* words = reinterpret_cast<int16_t*>(out);
    for (int64_t i = 0; i < count; ++i) words[i] = bytes[i];
  }
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
