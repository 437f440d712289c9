// Average and maximum of a window, sixteen channels at a time.
#include "finish.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {

namespace {

// By what the sums of a window are multiplied on one axis, from the count of its elements inside of the image.
inline int32_t factor_of(int32_t share, int32_t first, int32_t size, int32_t side) {
  return share == 0 ? 1 : share / (smaller(first + size, side) - greater(first, 0));
}

// acc + sum of `count` bytes of each channel.
INLINE inline I32x16 add_pixels(I32x16 acc, const uint8_t* in, int64_t pixel, int32_t count) {
#if defined(EM_ISA_NEON)
  // -128 * 256 fits int16.
  for (int32_t left = count; left > 0; left -= 256) {
    int16x8_t low = vdupq_n_s16(0), high = low;
#pragma GCC unroll 4
    for (int32_t i = smaller(left, 256); i > 0; --i, in += pixel) {
      const int8x16_t x = vreinterpretq_s8_u8(vld1q_u8(in));
      low = vaddw_s8(low, vget_low_s8(x));
      high = vaddw_s8(high, vget_high_s8(x));
    }
    acc = {vaddw_s16(acc.a, vget_low_s16(low)), vaddw_s16(acc.b, vget_high_s16(low)),
           vaddw_s16(acc.c, vget_low_s16(high)), vaddw_s16(acc.d, vget_high_s16(high))};
  }
#else
  for (int32_t i = 0; i < count; ++i, in += pixel) acc = acc + load_bytes(in);
#endif
  return acc;
}

}  // namespace

// acc = sum of (u - zero); the border holds the zero point, so that the padding adds 0.
void average_pool(const Pool& pool, uint8_t* arena, int32_t first, int32_t last) {
  const Window& win = pool.window;
  const I32x16 start = splat(-win.height * win.width * pool.in.zero);
  for (int32_t y = first; y < last; ++y) {
    const int32_t rows = factor_of(pool.share_y, y * win.stride_y - win.top, win.height, pool.in.height);
    for (int32_t x = 0; x < pool.out.width; ++x) {
      const int32_t columns = factor_of(pool.share_x, x * win.stride_x - win.left, win.width, pool.in.width);
      const I32x16 factor = splat(rows * columns);
      const uint8_t* corner =
          arena + pool.in.at(int64_t{y} * win.stride_y - win.top, int64_t{x} * win.stride_x - win.left);
      uint8_t* out = arena + pool.out.at(y, x);
      for (int32_t block = 0; block < pool.out.blocks(); ++block) {
        I32x16 acc = start;
        for (int32_t ky = 0; ky < win.height; ++ky)
          acc = add_pixels(acc, corner + ky * pool.in.row + block * kBlock, pool.in.pixel, win.width);
        finish_one(pool.requantize, block, acc * factor, out + block * kBlock);
      }
    }
  }
}

namespace {

// to[i] = max(to[i], from[i]); the two do not overlap.
inline void keep_greater(uint8_t* __restrict to, const uint8_t* __restrict from, int32_t count) {
  for (int32_t i = 0; i < count; ++i)
    to[i] = static_cast<Byte>(from[i]) > static_cast<Byte>(to[i]) ? from[i] : to[i];
}

}  // namespace

// The maximum of each column of the window first, then of each row of these: KH + KW comparisons for each element. The
// border holds the zero point, which could be the maximum; the window is therefore limited to the image.
void max_pool(const Pool& pool, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  const Window& win = pool.window;
  const int32_t bytes = pool.out.blocks() * kBlock;
  const bool is_padded = pool.in.pixel % kBlock == 0;
  const int32_t read = is_padded ? bytes : pool.in.channels;
  for (int32_t y = first; y < last; ++y) {
    const int32_t top = y * win.stride_y - win.top;
    const int32_t y0 = greater(top, 0), y1 = smaller(top + win.height, pool.in.height);
    for (int32_t x = 0; x < pool.in.width; ++x) {
      uint8_t* best = scratch + int64_t{x} * bytes;
      memcpy(best, arena + pool.in.at(y0, x), static_cast<size_t>(read));
      for (int32_t iy = y0 + 1; iy < y1; ++iy) keep_greater(best, arena + pool.in.at(iy, x), read);
    }
    for (int32_t x = 0; x < pool.out.width; ++x) {
      const int32_t left = x * win.stride_x - win.left;
      const int32_t x0 = greater(left, 0), x1 = smaller(left + win.width, pool.in.width);
      uint8_t* out = arena + pool.out.at(y, x);
      memcpy(out, scratch + int64_t{x0} * bytes, static_cast<size_t>(bytes));
      for (int32_t ix = x0 + 1; ix < x1; ++ix) keep_greater(out, scratch + int64_t{ix} * bytes, bytes);
    }
  }
}

size_t max_pool_scratch(const Pool& pool) { return size_t(pool.in.width) * pool.out.blocks() * kBlock; }

}  // namespace edgemeta::EM_NAMESPACE
