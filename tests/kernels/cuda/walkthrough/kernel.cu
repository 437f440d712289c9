// Max pooling: a thread finds the greatest of four channels of one output pixel (README.md).
#include "include/tensor.cuh"

TENSOR(Input, IN);
TENSOR(Output, OUT);

extern "C" __global__ void __launch_bounds__(THREADS)
    max_pool(const unsigned char* __restrict__ input, unsigned char* __restrict__ output) {
  const int item = (int)(blockIdx.x * THREADS + threadIdx.x);
  if (item >= HEIGHT * WIDTH * FOURS) return;
  const int channel = item % FOURS * 4, pixel = item / FOURS, row = pixel / WIDTH, column = pixel % WIDTH;
  int greatest[4] = {-128, -128, -128, -128};  // no byte is less, signed or not
#pragma unroll 1
  for (int i = 0; i < KERNEL_Y; ++i) {
#pragma unroll
    for (int j = 0; j < KERNEL_X; ++j) {
      const int y = row * STRIDE_Y - PAD_TOP + i, x = column * STRIDE_X - PAD_LEFT + j;
      if (y < 0 || y >= IN_HEIGHT || x < 0 || x >= IN_WIDTH) continue;  // padding is never the maximum
      int values[4];
      const unsigned char* pixel_at = image_of<Input>(input) + offset_of<Input>(y, x, channel);
      unpack_four<Input>(load_four<Input>(pixel_at, channel), values);
#pragma unroll
      for (int k = 0; k < 4; ++k) greatest[k] = max(greatest[k], values[k]);
    }
  }
  store_four<Output>(image_of<Output>(output) + offset_of<Output>(row, column, channel), channel, greatest);
}
