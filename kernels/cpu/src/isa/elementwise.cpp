// Elementwise layers, and the function table of this instruction set.
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

void clamp_rows(const Elementwise& op, uint8_t* arena, int32_t first, int32_t last) {
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < op.out.width; ++x) {
      const uint8_t* in = arena + op.in.at(y, x);
      uint8_t* out = arena + op.out.at(y, x);
      for (int32_t c = 0; c < op.out.channels; c += kBlock)
        store_bytes(out + c, clamp(load_bytes(in + c), op.lo, op.hi));
    }
  }
}

void rescale(const Elementwise& op, uint8_t* arena, int32_t first, int32_t last) {
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

// Copies one input of a concatenation to its channels of the output.
void concat(const Copy& copy, uint8_t* arena, int32_t first, int32_t last) {
  for (int32_t y = first; y < last; ++y)
    for (int32_t x = 0; x < copy.in.width; ++x)
      memcpy(arena + copy.out.at(y, x) + copy.channel, arena + copy.in.at(y, x), static_cast<size_t>(copy.in.channels));
}

void upsample(const Copy& copy, uint8_t* arena, int32_t first, int32_t last) {
  const size_t bytes = static_cast<size_t>(copy.in.channels);
  for (int32_t y = first; y < last; ++y)
    for (int32_t x = 0; x < copy.out.width; ++x)
      memcpy(arena + copy.out.at(y, x), arena + copy.in.at(y / copy.factor_y, x / copy.factor_x), bytes);
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
    generic_conv,
    average_pool,
    max_pool,
    add,
    clamp_rows,
    rescale,
    concat,
    upsample,
    resize_scratch,
    resize_row,
};

}  // namespace edgemeta::EM_NAMESPACE
