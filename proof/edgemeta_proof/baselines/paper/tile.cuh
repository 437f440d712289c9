// Shared by the paper's two tiled kernels: the 4x4 patch of a tile in shared memory, Algorithm 1, and the outputs.
//
// One block makes a tile of 2x2 outputs in all channels. Defines, besides those of requantize.cuh and layout.py:
//   CHANNELS, FILTERS: input and output channels, padded so that LANES (a power of two) divides FILTERS and
//   either of CHANNELS and LANES divides the other; OUTPUTS: filters without padding; OUT_H, OUT_W: rows and columns.
//   IN_FIRST: start of the patch of output (0, 0). PADS: the image has no ring; then IN_H, IN_W, PAD_TOP, PAD_LEFT and
//   IN_ZERO are used instead.
#include "include/device.cuh"
#include "include/residual.cuh"

REQUANTIZATION(Main, MAIN);

#if IN_SIGNED
typedef signed char Pixel;
#else
typedef unsigned char Pixel;
#endif
#if WEIGHT_BYTES == 1
typedef signed char Weight;
#else
typedef short Weight;
#endif

constexpr int RUN = CHANNELS > LANES ? CHANNELS / LANES : 1;  // products of one lane for one filter
constexpr unsigned TILE_COLUMNS = (OUT_W + 1) / 2;

__device__ __forceinline__ unsigned tile_y() { return blockIdx.x / TILE_COLUMNS * 2; }
__device__ __forceinline__ unsigned tile_x() { return blockIdx.x % TILE_COLUMNS * 2; }

// The bytes of the patch, [4][4][CHANNELS]; the first kernel of a network pads while it loads.
__device__ __forceinline__ void load_patch(const unsigned char* __restrict__ input, Pixel* patch) {
  input += blockIdx.z * (unsigned)IN_IMAGE;
#pragma unroll
  for (unsigned step = 0; step < (16 * CHANNELS + THREADS - 1) / THREADS; ++step) {
    const unsigned i = step * THREADS + threadIdx.x;
    if (16 * CHANNELS % THREADS != 0 && i >= 16 * CHANNELS) break;
    const unsigned channel = i % CHANNELS, y = i / CHANNELS / 4, x = i / CHANNELS % 4;
    int byte = 0;
#if PADS
    const int row = (int)(tile_y() + y) - PAD_TOP, column = (int)(tile_x() + x) - PAD_LEFT;
    if ((unsigned)row >= IN_H || (unsigned)column >= IN_W)
      byte = IN_ZERO;
    else if (channel < IN_PIXEL)
      byte = input[row * IN_ROW + column * IN_PIXEL + (int)channel];
#else
    if (IN_PIXEL >= CHANNELS || channel < IN_PIXEL)
      byte = input[IN_FIRST + (tile_y() + y) * IN_ROW + (tile_x() + x) * IN_PIXEL + channel];
#endif
    patch[i] = (Pixel)byte;
  }
}

// Algorithm 1 for LANES filters. Weight i belongs to input channel i % CHANNELS and filter (i % LANES + i /
// max(CHANNELS, LANES)) % LANES, so neighbours read neighbouring weights and channels and write different sums; the
// position in the sums advances by one after all channels. A lane's channels stay the same and are read once. A group
// within a warp takes its steps in order without a barrier of the block; a larger one, as the paper prints it for more
// than 32 filters, needs one after each.
template <bool BEGINS, class X, class W>
__device__ __forceinline__ void add_products(const X* x, const W* __restrict__ weights, int* sums, unsigned lane) {
  int own[RUN];
#pragma unroll
  for (int run = 0; run < RUN; ++run) own[run] = (int)x[CHANNELS > LANES ? run * LANES + lane : lane % CHANNELS];
  weights += lane;
#pragma unroll
  for (int shift = 0; shift < CHANNELS / RUN; ++shift) {
    const unsigned filter = (lane + shift) % LANES;
    int sum = BEGINS && shift == 0 ? 0 : sums[filter];
#pragma unroll
    for (int run = 0; run < RUN; ++run) sum += own[run] * (int)weights[(shift * RUN + run) * LANES];
    sums[filter] = sum;
    if (LANES > 32)
      __syncthreads();
    else
      __syncwarp();
  }
}

// One output: pixel (y, x) of the tile, from the sum of products.
__device__ __forceinline__ void write_output(int sum, unsigned y, unsigned x, unsigned filter, const Channel& channel,
                                             const unsigned char* __restrict__ table,
                                             const unsigned char* __restrict__ residual,
                                             unsigned char* __restrict__ output) {
  const unsigned row = tile_y() + y, column = tile_x() + x;
  if ((OUT_H % 2 != 0 && row >= OUT_H) || (OUT_W % 2 != 0 && column >= OUT_W)) return;
  int value = requantize<Main>(sum + channel.start, channel, table + TABLE_ROW * filter);
#ifdef ADD_OWN
  const unsigned at = RESIDUAL_START + row * RESIDUAL_ROW + column * RESIDUAL_PIXEL + filter;
  const int other = residual[blockIdx.z * (unsigned)RESIDUAL_IMAGE + at];
  value = add_residual(value, RESIDUAL_SIGNED ? (int)(signed char)other : other);
#endif
  const unsigned to = OUT_START + row * OUT_ROW + column * OUT_PIXEL + filter;
  output[blockIdx.z * (unsigned)OUT_IMAGE + to] = (unsigned char)value;
}
