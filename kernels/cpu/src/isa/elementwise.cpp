// Layers that compute each element from the same element of their inputs; the function table of this instruction set.
#include <float.h>

#include "finish_sum.h"
#include "table.h"
#include "weights.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

void add(const Addition& addition, uint8_t* arena, int32_t first, int32_t last) {
  const Sum sum = addition.sum;  // a copy: bytes that are stored could be those of the original
  const View va = addition.a, vb = addition.b, to = addition.out;
  for (int32_t y = first; y < last; ++y) {
    const uint8_t *a = arena + va.at(y, 0), *b = arena + vb.at(y, 0);
    uint8_t* out = arena + to.at(y, 0);
    for (int32_t x = 0; x < to.width; ++x, a += va.pixel, b += vb.pixel, out += to.pixel)
      for (int32_t c = 0; c < to.channels; c += kBlock)
        store_bytes(out + c, weighted_sum(sum, load_bytes(a + c), load_bytes(b + c)));
  }
}

void rescale(const Rescale& op, uint8_t* arena, int32_t first, int32_t last) {
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < op.out.width; ++x) {
      const uint8_t* in = arena + op.in.at(y, x);
      uint8_t* out = arena + op.out.at(y, x);
      for (int32_t block = 0; block < op.out.blocks(); ++block) {
        const I32x16 acc = load_bytes(in + block * kBlock) - splat(op.in.zero);
        finish_one(op.requantize, block, acc, out + block * kBlock);
      }
    }
  }
}

void product(const Product& op, uint8_t* arena, int32_t first, int32_t last) {
  const I32x16 zero_a = splat(op.a.zero), zero_b = splat(op.b.zero);
  const int64_t width = op.out.width, step = op.out.pixel, a_step = op.a.pixel, b_step = op.one_pixel ? 0 : op.b.pixel;
  for (int32_t y = first; y < last; ++y) {
    const uint8_t *a = arena + op.a.at(y, 0), *b = arena + (op.one_pixel ? op.b.at(0, 0) : op.b.at(y, 0));
    uint8_t* out = arena + op.out.at(y, 0);
    for (int32_t block = 0; block < op.out.blocks(); ++block, a += kBlock, b += kBlock, out += kBlock)
      with_stored_method(op.requantize, block, [&](const auto& finish, const auto& range) INLINE {
        for (int64_t x = 0; x < width; ++x) {
          const I32x16 product = (load_bytes(a + x * a_step) - zero_a) * (load_bytes(b + x * b_step) - zero_b);
          store_bytes(out + x * step, finish(product), range);
        }
      });
  }
}

}  // namespace

extern const Kernels kernels = {
// name, lines, is_signed, weight_bytes, weight_group, span_group
#if defined(EM_ISA_AVX512)
    "avx512vnni", Lines::down, false, true,
#elif defined(EM_ISA_AVXVNNI)
    "avxvnni", Lines::nearest, false, false,
#elif defined(EM_ISA_AVX2)
    "avx2", Lines::nearest, false, false,
#elif defined(EM_ISA_I8MM)
    "i8mm", Lines::integers, true, false,
#elif defined(EM_ISA_DOTPROD)
    "dotprod", Lines::integers, true, false,
#elif defined(EM_ISA_NEON)
    "neon", Lines::integers, true, false,
#else
    // Where floats have excess precision (x87), a line is not what the planner has proved.
    "portable", FLT_EVAL_METHOD == 0 ? Lines::stepwise : Lines::none, false, false,
#endif
    sizeof(Weight),
    kWeightGroup,
    kSpanGroup,
    conv,
    conv_scratch,
#if defined(EM_ISA_AVX2) && !defined(EM_ISA_AVXVNNI)
    conv_winograd,
    conv_winograd_scratch,
    2,
#elif defined(EM_HAS_WINOGRAD_ARM) || defined(EM_HAS_WINOGRAD_VNNI)
    conv_winograd,
    conv_winograd_scratch,
    4,
#else
    nullptr,
    nullptr,
    0,
#endif
    &low_bit,
    depthwise,
    can_depthwise,
    depthwise_bytes,
    pack_depthwise,
    generic_conv,
    average_pool,
    max_pool,
    max_pool_scratch,
    add,
    rescale,
    concat,
    load_pixels,
    lookup,
    pack_tables,
    product,
    gather,
    matmul,
    matmul_scratch,
    softmax,
    normalize,
    fill,
    bilinear,
    resize_scratch,
    resize_row,
    colour_row,
};

}  // namespace edgemeta::EM_NAMESPACE
