// From the accumulators of a tile to the output's pixels.
//
// A tile leaves its accumulators in a buffer of less than 2 KB: stores need no unit that multiplies, and so what
// follows exists once for all sizes of tiles.
#pragma once

#include "finish_sum.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// Store result(sums of pixel p) for all pixels, four at a time if possible.
template <typename Result, typename Range>
INLINE inline void store_pixels(uint8_t* to, int64_t step, int32_t pixels, const int32_t* sums, const Range& range,
                                const Result& result) {
  int32_t p = 0;
  for (; p + 4 <= pixels; p += 4, sums += 4 * kBlock)
    store_bytes(to + p * step, step, result(load(sums), p), result(load(sums + kBlock), p + 1),
                result(load(sums + 2 * kBlock), p + 2), result(load(sums + 3 * kBlock), p + 3), range);
  for (; p < pixels; ++p, sums += kBlock) store_bytes(to + p * step, result(load(sums), p), range);
}

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
    with_stored_method(conv.requantize, block, [&](const auto& finish, const auto& range) INLINE {
      store_pixels(to, step, pixels, sums, range, [&](const I32x16& acc, int32_t) INLINE { return finish(acc); });
    });
    return;
  }
  const uint8_t* other = arena + conv.other.at(y, x) + block * kBlock;
  const int64_t other_step = conv.other.pixel;
  with_method(conv.requantize, block, [&](const auto& finish) INLINE {
    const Operand operand(finish, conv.requantize);
    Sum sum = conv.sum;  // a copy: bytes that are stored could be those of the original
    operand.move_zero(conv.requantize, sum);
    const auto with_sum = [&](auto full) INLINE {
      store_pixels(to, step, pixels, sums, AnyByte(), [&](const I32x16& acc, int32_t p) INLINE {
        return weighted_sum<full.value != 0>(sum, operand(acc), load_bytes(other + p * other_step));
      });
    };
    is_full(sum) ? with_sum(Constant<1>()) : with_sum(Constant<0>());
  });
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
