// Convolution by multiply-adds of bytes, where few bits keep them from saturating. Only AVX2 has the form: VNNI
// multiplies bytes without saturation, and plain C++ has no such instruction.
#if defined(EM_ISA_AVX2) && !defined(EM_ISA_AVXVNNI)
#include "tile_bytes_avx2.h"

#include "../conv_rows.h"

namespace edgemeta::EM_NAMESPACE {

void conv_bytes(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  run_rows(conv, arena, first, last, scratch);
}

size_t conv_bytes_scratch(const Conv& conv) { return rows_scratch(conv); }

}  // namespace edgemeta::EM_NAMESPACE
#endif
