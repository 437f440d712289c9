// The paper's Winograd convolution: F(2x2, 3x3), one block per tile, precomputed int16 transformed weights, Algorithm 1
// for the sums over channels of each of the 16 positions, everything between the steps in shared memory.
//
// Ranges: B^T d B is at most 4 * 255 in magnitude, 4 G g G^T at most 9 * 128 (checked at packing), so both are int16;
// the sums are 4 times the convolution's, and launch.py takes the kernel only where they are within int32.
#include "baselines/paper/tile.cuh"

// B^T times a line of four: d0 - d2, d1 + d2, d2 - d1, d1 - d3.
__device__ __forceinline__ void transform_line(int* line, int stride) {
  const int d0 = line[0], d1 = line[stride], d2 = line[2 * stride], d3 = line[3 * stride];
  line[0] = d0 - d2, line[stride] = d1 + d2, line[2 * stride] = d2 - d1, line[3 * stride] = d1 - d3;
}

// One thread per channel.
__device__ __forceinline__ void transform(const Pixel* patch, short* transformed) {
#pragma unroll 1
  for (unsigned channel = threadIdx.x; channel < CHANNELS; channel += THREADS) {
    int d[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) d[i] = patch[i * CHANNELS + channel];
#pragma unroll
    for (int i = 0; i < 4; ++i) transform_line(d + i, 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) transform_line(d + 4 * i, 1);
#pragma unroll
    for (int i = 0; i < 16; ++i) transformed[i * CHANNELS + channel] = (short)d[i];
  }
}

// Columns of A^T m for a line of four: m0 + m1 + m2 and m1 - m2 - m3.
__device__ __forceinline__ void untransform_line(int* line, int stride) {
  const int m0 = line[0], m1 = line[stride], m2 = line[2 * stride], m3 = line[3 * stride];
  line[0] = m0 + m1 + m2, line[stride] = m1 - m2 - m3;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    paper_winograd(const unsigned char* __restrict__ input, const short* __restrict__ weights,
                   const int4* __restrict__ channels, const unsigned char* __restrict__ table RESIDUAL_PARAMETER,
                   unsigned char* __restrict__ output) {
  __shared__ Pixel patch[16 * CHANNELS];
  __shared__ short transformed[16 * CHANNELS];
  __shared__ int sums[16 * FILTERS];
  load_patch(input, patch);
  __syncthreads();
  transform(patch, transformed);
  __syncthreads();
  // Groups of LANES filters, all of them of position 0, then of position 1, ...
#pragma unroll 1
  for (unsigned item = threadIdx.x; item < 16 * FILTERS; item += THREADS) {
    const unsigned position = item / FILTERS, group = item / LANES;
    add_products<true>(transformed + position * CHANNELS, weights + group * LANES * CHANNELS, sums + group * LANES,
                       item % LANES);
  }
  __syncthreads();
  // One thread per filter.
#pragma unroll 1
  for (unsigned filter = threadIdx.x; filter < OUTPUTS; filter += THREADS) {
    int m[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) m[i] = sums[i * FILTERS + filter];
#pragma unroll
    for (int i = 0; i < 4; ++i) untransform_line(m + i, 4);
    untransform_line(m, 1);
    untransform_line(m + 4, 1);
    const Channel channel = load_channel<Main>(channels, filter);
#pragma unroll
    for (unsigned i = 0; i < 4; ++i)
      write_output(m[i / 2 * 4 + i % 2], i / 2, i % 2, filter, channel, table, RESIDUAL_POINTER, output);
  }
}
