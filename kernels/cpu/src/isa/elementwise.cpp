// Layers that compute each element from the same element of their inputs; the function table of this instruction set.
#include "finish.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

void add(const Addition& addition, uint8_t* arena, int32_t first, int32_t last) {
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < addition.out.width; ++x) {
      const uint8_t *a = arena + addition.a.at(y, x), *b = arena + addition.b.at(y, x);
      uint8_t* out = arena + addition.out.at(y, x);
      for (int32_t c = 0; c < addition.out.channels; c += kBlock)
        store_bytes(out + c, weighted_sum(addition.sum, load_bytes(a + c), load_bytes(b + c)));
    }
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
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < op.out.width; ++x) {
      const uint8_t* a = arena + op.a.at(y, x);
      const uint8_t* b = arena + (op.one_pixel ? op.b.at(0, 0) : op.b.at(y, x));
      uint8_t* out = arena + op.out.at(y, x);
      for (int32_t block = 0; block < op.out.blocks(); ++block) {
        const int32_t c = block * kBlock;
        finish_one(op.requantize, block, (load_bytes(a + c) - zero_a) * (load_bytes(b + c) - zero_b), out + c);
      }
    }
  }
}

}  // namespace

extern const Kernels kernels = {
#if defined(EM_ISA_AVX512)
    "avx512vnni",
    true,
    1,
    4,
#elif defined(EM_ISA_AVX2)
    "avx2",
    false,
    2,
    2,
#else
    "portable",
    false,
    2,
    1,
#endif
    conv,
    conv_scratch,
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
    upsample,
    lookup,
    product,
    pad,
    slice,
    shuffle,
    bilinear,
    resize_scratch,
    resize_row,
    colour_row,
};

}  // namespace edgemeta::EM_NAMESPACE
