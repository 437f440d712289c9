// The paper's simple convolution where Winograd does not apply (any kernel and stride): one block computes one map, one
// thread one output. The block's filter is in shared memory; pixels are read from global memory. Blocks after the main
// convolution's compute the maps of the shortcut (the paper's figure 7).
//
// Defines as in tile.cuh, and KERNEL_Y, KERNEL_X, STRIDE_Y, STRIDE_X, CHUNK (channels of one unrolled piece);
// BESIDE_OUTPUTS: maps of the shortcut (0: none), whose input begins at BESIDE_FIRST.
#include "include/device.cuh"
#include "include/residual.cuh"

REQUANTIZATION(Main, MAIN);
#if BESIDE_OUTPUTS
REQUANTIZATION(Beside, BESIDE);
#endif

#if WEIGHT_BYTES == 1
typedef signed char Weight;
#else
typedef short Weight;
#endif
#if MAIN_FORM == 0  // RAW
typedef int Output;
#else
typedef unsigned char Output;
#endif

__device__ __forceinline__ int byte_of(unsigned char byte) { return IN_SIGNED ? (int)(signed char)byte : (int)byte; }

// Row and column count from the first tap of output (0, 0), or from the image's corner where there is no ring.
__device__ __forceinline__ int pixel_at(const unsigned char* __restrict__ input, int row, int column, int channel) {
#if PADS
  if (row < 0 || row >= IN_H || column < 0 || column >= IN_W) return IN_ZERO;
#endif
  return byte_of(input[row * IN_ROW + column * IN_PIXEL + channel]);
}

// The sum over taps and channels, the filter being copied to shared memory first.
template <int ROWS, int COLUMNS, int TOP, int LEFT>
__device__ __forceinline__ int convolve(const unsigned char* __restrict__ input, const Weight* __restrict__ weights,
                                        int y, int x, Weight* filter) {
  constexpr int SIZE = ROWS * COLUMNS * CHANNELS;
#pragma unroll
  for (int step = 0; step < (SIZE + THREADS - 1) / THREADS; ++step) {
    const int i = step * THREADS + (int)threadIdx.x;
    if (i < SIZE) filter[i] = weights[i];
  }
  __syncthreads();
  int sum = 0;
#pragma unroll 1
  for (int start = 0; start < CHANNELS; start += CHUNK)
#pragma unroll
    for (int tap = 0; tap < ROWS * COLUMNS; ++tap)
#pragma unroll
      for (int c = 0; c < CHUNK; ++c) {
        const int row = y * STRIDE_Y + tap / COLUMNS - TOP, column = x * STRIDE_X + tap % COLUMNS - LEFT;
        const int pixel = pixel_at(input, row, column, start + c);
        sum += pixel * (int)filter[tap * CHANNELS + start + c];
      }
  return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    paper_map(const unsigned char* __restrict__ input, const Weight* __restrict__ weights,
              const int4* __restrict__ channels, const unsigned char* __restrict__ table RESIDUAL_PARAMETER,
#if BESIDE_OUTPUTS
              const Weight* __restrict__ beside_weights, const int4* __restrict__ beside_channels,
              const unsigned char* __restrict__ beside_table, unsigned char* __restrict__ beside_output,
#endif
              Output* __restrict__ output) {
  __shared__ Weight filter[KERNEL_Y * KERNEL_X * CHANNELS];
  const unsigned image = blockIdx.z;
  const int map = (int)blockIdx.x;
  const unsigned pixel = blockIdx.y * THREADS + threadIdx.x, last = OUT_H * OUT_W - 1;
  const int y = (int)(min(pixel, last) / OUT_W), x = (int)(min(pixel, last) % OUT_W);
  input += image * (unsigned)IN_IMAGE;
#if BESIDE_OUTPUTS
  if (map >= OUTPUTS) {
    const int own = map - OUTPUTS;
    const int sum = convolve<1, 1, 0, 0>(input + BESIDE_FIRST, beside_weights + own * CHANNELS, y, x, filter);
    const Channel channel = load_channel<Beside>(beside_channels, own);
    const int value = requantize<Beside>(sum + channel.start, channel, beside_table + BESIDE_TABLE_ROW * own);
    const int to = BESIDE_OUT_START + y * BESIDE_OUT_ROW + x * BESIDE_OUT_PIXEL + own;
    if (pixel <= last) beside_output[image * (unsigned)BESIDE_OUT_IMAGE + to] = (unsigned char)value;
    return;
  }
#endif
  const Weight* weights_of_map = weights + map * KERNEL_Y * KERNEL_X * CHANNELS;
  const int sum =
      convolve<KERNEL_Y, KERNEL_X, PADS * PAD_TOP, PADS * PAD_LEFT>(input + IN_FIRST, weights_of_map, y, x, filter);
  const Channel channel = load_channel<Main>(channels, map);
  int value = requantize<Main>(sum + channel.start, channel, table + TABLE_ROW * map);
#ifdef ADD_OWN
  const int at = RESIDUAL_START + y * RESIDUAL_ROW + x * RESIDUAL_PIXEL + map;
  const int other = residual[image * (unsigned)RESIDUAL_IMAGE + at];
  value = add_residual(value, RESIDUAL_SIGNED ? (int)(signed char)other : other);
#endif
  const int to = OUT_START + y * OUT_ROW + x * OUT_PIXEL + map;
  if (pixel <= last) output[image * (unsigned)OUT_IMAGE + to] = (Output)value;
}
