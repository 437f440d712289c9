// The 256-bit vpdpbusd in the encoding of this instruction set.
#pragma once

#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// sum + the products of four bytes u8 x s8 in each lane, without saturation.
INLINE inline __m256i add_products(__m256i sum, __m256i x, __m256i w) {
#if defined(EM_ENCODE_EVEX)
  return _mm256_dpbusd_epi32(sum, x, w);
#else
  return _mm256_dpbusd_avx_epi32(sum, x, w);
#endif
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
