// From the accumulators of a tile to the output's pixels.
//
// A tile leaves its accumulators in a buffer of less than 2 KB: stores need no unit that multiplies, and so what
// follows exists once for all sizes of tiles.
#pragma once

#include "finish_sum.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// Requantize and store one block of a tile whose first pixel is (y, x).
void finish_block(const Conv& conv, uint8_t* arena, int32_t y, int32_t x, int32_t block, int32_t pixels,
                  const int32_t* sums) {
  uint8_t* out = arena + conv.out.at(y, x);
  const int64_t step = conv.out.pixel;
  if (conv.requantize.method[block] == Method::raw) {
    for (int32_t p = 0; p < pixels; ++p)
      store_raw(conv.requantize, block, sums + p * kBlock, out + p * step + block * kBlock * 4);
    return;
  }
  uint8_t* to = out + block * kBlock;
  if (!conv.has_sum) {
    finish_pixels(conv.requantize, block, to, step, pixels, sums);
    return;
  }
  const uint8_t* other = arena + conv.other.at(y, x) + block * kBlock;
  const int64_t other_step = conv.other.pixel;
  with_method(conv.requantize, block, [&](const auto& finish) INLINE {
    const Operand operand(finish, conv.requantize);
    Sum sum = conv.sum;  // a copy: bytes that are stored could be those of the original
    operand.move_zero(conv.requantize, sum);
    const auto with_sum = [&](auto full, const auto& range) INLINE {
      store_pixels(to, step, pixels, sums, range, [&](const I32x16& acc, int32_t p) INLINE {
        return weighted_sum<full.value != 0>(sum, operand(acc), load_bytes(other + p * other_step));
      });
    };
    is_full(sum) ? with_sum(Constant<1>(), AnyByte()) : with_sum(Constant<0>(), AnyByte());
  });
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
