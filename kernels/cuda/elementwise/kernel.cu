// Additions, clamps, rescales, tables and products that are not fused: a thread computes four channels of a pixel
// (README.md).
#include "include/residual.cuh"
#include "include/tensor.cuh"

TENSOR(Input, IN);
TENSOR(Output, OUT);
#if OTHER
TENSOR(Other, OTHER);
#endif
#ifdef RESCALE_FORM
REQUANTIZATION(Rescale, RESCALE);
#endif

extern "C" __global__ void __launch_bounds__(THREADS)
    elementwise(const unsigned char* __restrict__ input, unsigned char* __restrict__ output
#if OTHER
                ,
                const unsigned char* __restrict__ other
#endif
#ifdef RESCALE_FORM
                ,
                const int4* __restrict__ channels
#endif
#if defined(RESCALE_FORM) || defined(LOOKUP_ROW)
                ,
                const unsigned char* __restrict__ table
#endif
    ) {
  const int item = (int)(blockIdx.x * THREADS + threadIdx.x);
  if (item >= HEIGHT * WIDTH * FOURS) return;
  const int channel = item % FOURS * 4, pixel = item / FOURS, row = pixel / WIDTH, column = pixel % WIDTH;
  int values[4];
  unpack_four<Input>(
      load_four<Input>(image_of<Input>(input) + offset_of<Input>(row, column, channel), channel), values);
#if OTHER
  int others[4];
  unpack_four<Other>(
      load_four<Other>(image_of<Other>(other) + offset_of<Other>(row, column, channel), channel), others);
#endif
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#ifdef ADD_OWN
    values[i] = add_residual(values[i], others[i]);
#endif
#ifdef PRODUCT_ZERO
    values[i] = (values[i] - PRODUCT_ZERO) * (others[i] - PRODUCT_OTHER_ZERO);
#endif
#ifdef CLAMP_LO
    values[i] = clamp(values[i], CLAMP_LO, CLAMP_HI);
#endif
#ifdef LOOKUP_ROW
    values[i] = __ldg(table + (channel + i) * LOOKUP_ROW + values[i] - LOOKUP_LEAST);
#endif
#ifdef RESCALE_FORM
    const Channel constants = load_channel<Rescale>(channels, channel + i);
    values[i] = requantize<Rescale>(values[i] + constants.start, constants, table + (channel + i) * 256);
#endif
  }
  store_four<Output>(image_of<Output>(output) + offset_of<Output>(row, column, channel), channel, values);
}
