// Convolution by tiles, with the multiply-add of this instruction set.
#if defined(EM_ISA_AVX512)
#include "tile_avx512.h"
#elif defined(EM_ISA_AVXVNNI)
#include "tile_avxvnni.h"
#elif defined(EM_ISA_AVX2)
#include "tile_avx2.h"
#elif defined(EM_ISA_I8MM)
#include "tile_i8mm.h"
#elif defined(EM_ISA_DOTPROD)
#include "tile_dotprod.h"
#elif defined(EM_ISA_NEON)
#include "tile_neon.h"
#else
#include "tile_portable.h"
#endif

#if defined(EM_ISA_NEON)
#include "conv_strips.h"
#else
#include "conv_rows.h"
#endif

namespace edgemeta::EM_NAMESPACE {

void conv(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  run_rows(conv, arena, first, last, scratch);
}

size_t conv_scratch(const Conv& conv) { return rows_scratch(conv); }

}  // namespace edgemeta::EM_NAMESPACE
