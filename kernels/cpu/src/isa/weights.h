// How the fast convolutions of this instruction set have their weights: see Conv::weights.
#pragma once

#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVXVNNI)
typedef int8_t Weight;
constexpr int kWeightGroup = 4, kSpanGroup = 4;
#elif defined(EM_ISA_AVX2)
typedef int16_t Weight;
constexpr int kWeightGroup = 2, kSpanGroup = 4;
#elif defined(EM_ISA_I8MM)
typedef int8_t Weight;
constexpr int kWeightGroup = 8, kSpanGroup = 16;
#elif defined(EM_ISA_DOTPROD)
typedef int8_t Weight;
constexpr int kWeightGroup = 4, kSpanGroup = 16;
#elif defined(EM_ISA_NEON)
typedef int8_t Weight;
constexpr int kWeightGroup = 16, kSpanGroup = 16;
#else
typedef int16_t Weight;
constexpr int kWeightGroup = 1, kSpanGroup = 4;
#endif

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
