// Bilinear resize: a thread computes four channels of an output pixel (README.md).
#include "include/tensor.cuh"

TENSOR(Input, IN);
TENSOR(Output, OUT);

// Between two rows or columns of the input: their offsets, and the weights of both in units of 2**-BITS.
extern "C" __global__ void __launch_bounds__(THREADS)
    resize(const unsigned char* __restrict__ input, unsigned char* __restrict__ output, const int4* __restrict__ rows,
           const int4* __restrict__ columns) {
  const int item = (int)(blockIdx.x * THREADS + threadIdx.x);
  if (item >= HEIGHT * WIDTH * FOURS) return;
  const int channel = item % FOURS * 4, pixel = item / FOURS, row = pixel / WIDTH, column = pixel % WIDTH;
  const int4 y = __ldg(rows + row), x = __ldg(columns + column);
  const unsigned char* from = image_of<Input>(input) + Input::start + channel;
  int corners[4][4];
  unpack_four<Input>(load_four<Input>(from + y.x + x.x, channel), corners[0]);
  unpack_four<Input>(load_four<Input>(from + y.y + x.x, channel), corners[1]);
  unpack_four<Input>(load_four<Input>(from + y.x + x.y, channel), corners[2]);
  unpack_four<Input>(load_four<Input>(from + y.y + x.y, channel), corners[3]);
  int values[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int left = corners[0][i] * y.z + corners[1][i] * y.w, right = corners[2][i] * y.z + corners[3][i] * y.w;
    values[i] = (left * x.z + right * x.w + (1 << (2 * BITS - 1))) >> (2 * BITS);
  }
  store_four<Output>(image_of<Output>(output) + offset_of<Output>(row, column, channel), channel, values);
}
