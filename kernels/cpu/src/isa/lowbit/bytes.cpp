// Convolution with sums of products in fewer than 32 bits, where few bits keep them exact: on AVX2, and on ARM without
// dot products. VNNI and dot products sum bytes in int32 at the same speed, and plain C++ has no such instruction.
#include "../table.h"

#if (defined(EM_ISA_AVX2) && !defined(EM_ISA_AVXVNNI)) || defined(EM_HAS_BYTES_ARM)
#if defined(EM_ISA_AVX2)
#include "tile_bytes_avx2.h"

#include "../conv_rows.h"
#else
#include "tile_bytes_arm.h"

#include "../conv_strips.h"
#endif

namespace edgemeta::EM_NAMESPACE {

void conv_bytes(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  run_rows(conv, arena, first, last, scratch);
}

size_t conv_bytes_scratch(const Conv& conv) { return rows_scratch(conv); }

}  // namespace edgemeta::EM_NAMESPACE
#endif
