// Max and average pools over windows: a thread computes four channels of an output pixel (README.md).
#include "include/requantize.cuh"
#include "include/tensor.cuh"

TENSOR(Input, IN);
TENSOR(Output, OUT);
#ifdef POOL_FORM
REQUANTIZATION(Pool, POOL);
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    pool(const unsigned char* __restrict__ input, unsigned char* __restrict__ output
#ifdef POOL_FORM
         ,
         const int4* __restrict__ channels, const unsigned char* __restrict__ table
#endif
    ) {
  const int item = (int)(blockIdx.x * THREADS + threadIdx.x);
  if (item >= HEIGHT * WIDTH * FOURS) return;
  const int channel = item % FOURS * 4, pixel = item / FOURS, row = pixel / WIDTH, column = pixel % WIDTH;
  const int top = row * STRIDE_Y - PAD_TOP, left = column * STRIDE_X - PAD_LEFT;
  const unsigned char* image = image_of<Input>(input);
#ifdef POOL_FORM
  int results[4] = {0, 0, 0, 0};
#else
  int results[4] = {-128, -128, -128, -128};  // no byte is less, signed or not
#endif
#pragma unroll 1
  for (int i = 0; i < KERNEL_Y; ++i) {
    const int y = top + i;
#pragma unroll 1
    for (int j = 0; j < KERNEL_X; ++j) {
      const int x = left + j;
      if (y >= 0 && y < IN_HEIGHT && x >= 0 && x < IN_WIDTH) {  // padding is never the greatest, and adds 0 to a sum
        int values[4];
        unpack_four<Input>(load_four<Input>(image + offset_of<Input>(y, x, channel), channel), values);
#pragma unroll
        for (int k = 0; k < 4; ++k) {
#ifdef POOL_FORM
          results[k] += values[k] - POOL_IN_ZERO;
#else
          results[k] = max(results[k], values[k]);
#endif
        }
      }
    }
  }
#ifdef POOL_FORM
#ifdef SHARE_Y  // an average over what is inside: n of its elements count SHARE / n times
  const int factor = SHARE_Y / (min(top + KERNEL_Y, IN_HEIGHT) - max(top, 0)) *
                     (SHARE_X / (min(left + KERNEL_X, IN_WIDTH) - max(left, 0)));
#else
  const int factor = 1;
#endif
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const Channel constants = load_channel<Pool>(channels, channel + k);
    results[k] = requantize<Pool>(results[k] * factor + constants.start, constants, table + (channel + k) * 256);
  }
#endif
  store_four<Output>(image_of<Output>(output) + offset_of<Output>(row, column, channel), channel, results);
}
