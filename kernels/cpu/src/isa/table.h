// Functions of this instruction set that are defined in other files.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {

void conv(const Conv&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);
size_t conv_scratch(const Conv&);
#if defined(EM_ISA_NEON) && defined(__aarch64__) && !defined(EM_ISA_DOTPROD) && !defined(EM_ISA_I8MM)
#define EM_HAS_WINOGRAD_ARM
#elif defined(EM_ISA_AVX512) || defined(EM_ISA_AVXVNNI)
#define EM_HAS_WINOGRAD_VNNI
#endif
void conv_winograd(const Conv&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);  // where the set has it
size_t conv_winograd_scratch(const Conv&);
extern const LowBitKernels low_bit;
#if defined(EM_ISA_NEON) && !defined(EM_ISA_DOTPROD) && !defined(EM_ISA_I8MM)
#define EM_HAS_BYTES_ARM
// Outputs whose narrow sums are in registers at a time.
#if defined(__aarch64__)
constexpr int kNarrowOutputs = 8;
#else
constexpr int kNarrowOutputs = 4;
#endif
#endif
void conv_bytes(const Conv&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);  // AVX2, ARM's neon
size_t conv_bytes_scratch(const Conv&);
void quantize(const float* x, int64_t count, int32_t bits, uint8_t* out, float* range);
void dequantize(const int32_t* sums, int64_t rows, int32_t columns, const float* scale, const float* offset,
                float* out);
void depthwise(const Depthwise&, uint8_t* arena, int32_t first, int32_t last);
bool can_depthwise(const Depthwise&, int32_t least, int32_t greatest);
size_t depthwise_bytes(const Depthwise&);
void pack_depthwise(const Depthwise&, const int32_t* weights, uint8_t* packed);
void generic_conv(const GenericConv&, uint8_t* arena, int32_t first, int32_t last);
void average_pool(const Pool&, uint8_t* arena, int32_t first, int32_t last);
void max_pool(const Pool&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);
size_t max_pool_scratch(const Pool&);
void concat(const Copy&, uint8_t* arena, int32_t first, int32_t last);
void load_pixels(const uint8_t* image, uint8_t* row, int32_t width, uint8_t flip);
void lookup(const Lookup&, uint8_t* arena, int32_t first, int32_t last);
void pack_tables(uint8_t* tables, int64_t count);
// Bytes at which one table is applied: `count` pieces of `size` bytes.
struct Pieces {
  const uint8_t* in;
  uint8_t* out;
  int64_t in_step, out_step;
  int32_t size, count;
};

// Blocks of channels of a run of pixels, at which the tables of each are applied.
struct PixelRun {
  const uint8_t* in;
  uint8_t* out;
  int64_t in_pixel, out_pixel;
  int32_t pixels, blocks;
};
void look_up_vbmi(const uint8_t* table, const Pieces&);  // AVX-512's, where the machine has VBMI
void look_up_run_vbmi(const uint8_t* tables, const PixelRun&);
void matmul(const MatMul&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);
size_t matmul_scratch(const MatMul&);
void softmax(const Softmax&, uint8_t* arena, int32_t first, int32_t last);
void normalize(const Normalize&, uint8_t* arena, int32_t first, int32_t last);
void fill(const Fill&, uint8_t* arena, int32_t first, int32_t last);
void gather(const ElementGather&, uint8_t* arena, int32_t first, int32_t last);
void bilinear(const Bilinear&, uint8_t* arena, int32_t first, int32_t last);
size_t resize_scratch(const Resize&);
void resize_row(const Resize&, const uint8_t* crop, int64_t row_bytes, int32_t row, uint8_t* out, uint8_t* scratch);
void colour_row(const Colour&, const uint8_t* pixels, int32_t width, uint8_t* out);

}  // namespace edgemeta::EM_NAMESPACE
