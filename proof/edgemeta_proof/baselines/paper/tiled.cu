// The paper's simple convolution for its table 1: tiled like the Winograd kernel, one block per 2x2 outputs in all
// channels, Algorithm 1 for every pixel and tap on bytes in shared memory.
#include "baselines/paper/tile.cuh"

extern "C" __global__ void __launch_bounds__(THREADS)
    paper_tiled(const unsigned char* __restrict__ input, const Weight* __restrict__ weights,
                const int4* __restrict__ channels, const unsigned char* __restrict__ table RESIDUAL_PARAMETER,
                unsigned char* __restrict__ output) {
  __shared__ Pixel patch[16 * CHANNELS];
  __shared__ int sums[4 * FILTERS];
  load_patch(input, patch);
  __syncthreads();
#pragma unroll 1
  for (unsigned item = threadIdx.x; item < 4 * FILTERS; item += THREADS) {
    const unsigned filter = item % FILTERS, y = item / FILTERS / 2, x = item / FILTERS % 2, lane = item % LANES;
    const Pixel* from = patch + (y * 4 + x) * CHANNELS;
    const Weight* shuffled = weights + (filter - lane) * CHANNELS;
    int* group = sums + item - lane;
    sums[item] = 0;
    __syncwarp();
#pragma unroll 1
    for (int row = 0; row < 3; ++row) {
#pragma unroll
      for (int column = 0; column < 3; ++column)
        add_products<false>(from + column * CHANNELS, shuffled + column * FILTERS * CHANNELS, group, lane);
      from += 4 * CHANNELS, shuffled += 3 * FILTERS * CHANNELS;
    }
    if (filter >= OUTPUTS) continue;
    write_output(sums[item], y, x, filter, load_channel<Main>(channels, filter), table, RESIDUAL_POINTER, output);
  }
}
