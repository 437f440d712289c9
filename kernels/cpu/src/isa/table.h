// The functions of this instruction set that other files of it define.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {

void conv(const Conv&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);
size_t conv_scratch(const Conv&);
void generic_conv(const GenericConv&, uint8_t* arena, int32_t first, int32_t last);
void average_pool(const Pool&, uint8_t* arena, int32_t first, int32_t last);
void max_pool(const Pool&, uint8_t* arena, int32_t first, int32_t last);

}  // namespace edgemeta::EM_NAMESPACE
