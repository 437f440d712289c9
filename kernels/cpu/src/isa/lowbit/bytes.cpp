// Convolution with sums of products in fewer than 32 bits, where few bits keep them exact: on AVX2, and on ARM without
// dot products. VNNI and dot products sum bytes in int32 at the same speed, and plain C++ has no such instruction.
#include "../table.h"

#if defined(EM_ISA_AVX2) && !defined(EM_ISA_AVXVNNI)
#include "tile_bytes_avx2.h"

#include "../conv_rows.h"

namespace edgemeta::EM_NAMESPACE {

void conv_bytes(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  run_rows(conv, arena, first, last, scratch);
}

size_t conv_bytes_scratch(const Conv& conv) { return rows_scratch(conv); }

}  // namespace edgemeta::EM_NAMESPACE

#elif defined(EM_HAS_BYTES_ARM)
#include "tile_bytes_arm.h"

#include "../conv_strips.h"

namespace edgemeta::EM_NAMESPACE {

void conv_bytes(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  const Strips strips{conv, arena};
  auto* starts = reinterpret_cast<int8_t*>(scratch);
  uint8_t* unpacked = scratch + start_bytes(conv);
  for (int32_t block = 0; block < conv.out.blocks(); ++block) {
    const uint8_t* weights = unpacked;
    if (conv.packed_bits > 0)
      unpack_blocks(conv, block, 1, unpacked);
    else
      weights = static_cast<const uint8_t*>(conv.weights) + block * conv.block_bytes;
    const auto* bytes = reinterpret_cast<const int8_t*>(weights);
    conv.sum_bytes == 1 ? find_starts<InInt8>(conv, bytes, starts) : find_starts<InInt16>(conv, bytes, starts);
    strips.run(first, last, block, weights, starts);
  }
}

size_t conv_bytes_scratch(const Conv& conv) {
  return static_cast<size_t>(start_bytes(conv)) + (conv.packed_bits > 0 ? unpack_scratch(conv, 1) : 0);
}

}  // namespace edgemeta::EM_NAMESPACE
#endif
