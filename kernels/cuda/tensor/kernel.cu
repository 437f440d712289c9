// Direct convolution on int8 or int4 matrix instructions, with requantization, residual addition, clamp, and optionally
// the 1x1 shortcut of the same input. Layouts and bounds: README.md. Every capital name is a define of launch.py.
//
// A warp computes 16 ROWS pixels of 8 COLUMNS channels; a lane 2 ROWS pixels of FILTERS = 2 COLUMNS consecutive
// channels. Shared memory is not used: a lane's bytes of the input and of the weights are contiguous in global memory.
// In a kernel of the whole network weights and channels may be in shared memory (one_launch/ahead.py).
#include "include/fused.cuh"
#include "tensor/mma.cuh"

TENSOR(Input, IN);

enum {
  PIXELS = 2 * ROWS,
  FILTERS = 2 * COLUMNS,
  WARP_FILTERS = 8 * COLUMNS,
  GROUP = 16 * WIDTH,  // input channels of one load: a lane's WIDTH words
  GROUPS = CHANNELS / GROUP,
  OPERANDS = WIDTH * OPERAND_BITS / 8,  // the same as operands of the matrix instructions
  LOADED = IN_NIBBLES ? OPERANDS : WIDTH,  // words that a lane loads of a pixel
  WEIGHT_WORDS = COLUMNS * OPERANDS,  // a lane's, for one tap and group
  PIECE = WEIGHT_WORDS % 4 == 0 ? 4 : 2,
  PIECES = WEIGHT_WORDS / PIECE
};

typedef int Sums[ROWS][COLUMNS][4];

__device__ __forceinline__ void clear(Sums& sums) {
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[r][c][i] = 0;
}

// The p-th pixel of a lane, in image order; includes pixels of a warp beyond the image.
__device__ __forceinline__ int pixel_of(const Block& block, int p) {
  const int warp = block.x * WARPS + threadIdx.x / 32;
  return warp * (16 * ROWS) + p * 8 + threadIdx.x % 32 / 4;
}

// A pixel's words as operands. Bytes of 4 bits become nibbles: byte c of words 2 i and 2 i + 1, byte c of operand i.
__device__ __forceinline__ void make_operands(int (&operands)[OPERANDS], const int (&words)[LOADED]) {
#pragma unroll
  for (int i = 0; i < OPERANDS; ++i)
#if OPERAND_BITS == 4 && !IN_NIBBLES
    operands[i] = pack_nibbles<Input::is_signed>(words[2 * i], words[2 * i + 1]);
#else
    operands[i] = words[i];
#endif
}

// Products of one tap and one group of channels; image[offsets[p]] is the group of pixel p.
__device__ __forceinline__ void add_tap(Sums& sums, const unsigned char* __restrict__ image,
                                        const int (&offsets)[PIXELS], const int* __restrict__ weights) {
  int x[PIXELS][LOADED], a[PIXELS][OPERANDS], w[WEIGHT_WORDS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) load_words<LOADED>(x[p], reinterpret_cast<const int*>(image + offsets[p]));
#pragma unroll
  for (int i = 0; i < PIECES; ++i) load_words<PIECE>(w + i * PIECE, weights + i * (32 * PIECE));
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) make_operands(a[p], x[p]);
#pragma unroll
  for (int r = 0; r < ROWS; ++r)
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      const int *top = a[2 * r], *below = a[2 * r + 1], *b = w + c * OPERANDS;
#if WIDTH * OPERAND_BITS == 8
      multiply_short<OPERAND_BITS, Input::is_signed>(sums[r][c], top[0], below[0], b[0]);
#else
#pragma unroll
      for (int i = 0; i < OPERANDS; i += 2)
        multiply_long<OPERAND_BITS, Input::is_signed>(sums[r][c], top[i], below[i], top[i + 1], below[i + 1], b[i],
                                                      b[i + 1]);
#endif
    }
}

// Products of a HEIGHT x ACROSS kernel. image: the byte under the kernel's first tap at pixel (0, 0).
template <int HEIGHT, int ACROSS>
__device__ __forceinline__ void accumulate(Sums& sums, const unsigned char* __restrict__ image,
                                           const int (&offsets)[PIXELS], const int* __restrict__ weights) {
#pragma unroll 1
  for (int y = 0; y < HEIGHT; ++y) {
#pragma unroll 1
    for (int group = 0; group < GROUPS; ++group) {
#pragma unroll
      for (int x = 0; x < ACROSS; ++x)
        add_tap(sums, image + y * Input::row + group * (16 * LOADED) + x * Input::pixel, offsets,
                weights + x * (32 * WEIGHT_WORDS));
      weights += ACROSS * (32 * WEIGHT_WORDS);
    }
  }
}

// Requantize, add the residual (main convolution only), clamp and write the lane's pixels.
template <class R, class T, bool IS_MAIN>
__device__ __forceinline__ void finish(const Block& block, const Sums& sums, const int4* __restrict__ channels,
                                       const unsigned char* __restrict__ table, unsigned char* __restrict__ output,
                                       const unsigned char* __restrict__ residual) {
  const int filter = block.y * WARP_FILTERS + threadIdx.x % 4 * FILTERS;
  int values[PIXELS][FILTERS];
#pragma unroll
  for (int k = 0; k < FILTERS; ++k) {
    const Channel channel = load_channel_anywhere<R>(channels, filter + k);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
      values[p][k] = requantize<R>(sums[p / 2][k / 2][p % 2 * 2 + k % 2] + channel.start, channel,
                                   table + (filter + k) * 256);
  }
  output = image_of<T>(output, block.z);
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    const int pixel = pixel_of(block, p), row = pixel / OUT_W, column = pixel % OUT_W;
    if (OUT_CHECKED && pixel >= OUT_H * OUT_W) return;
#ifdef ADD_OWN
    if (IS_MAIN)
      add_pixel<Residual>(
          values[p], image_of<Residual>(residual, block.z) + offset_of<Residual>(row, column, filter), filter);
#endif
    store_pixel<R, T>(output, offset_of<T>(row, column, filter), values[p], filter);
  }
}

// The outputs of one block of the layer. channels, tables: epilogue.py's. weights: launch.py's.
__device__ __forceinline__ void compute(const Block& block, int4*, const unsigned char* __restrict__ input,
                                        const int* __restrict__ weights, const int4* __restrict__ channels,
                                        const unsigned char* __restrict__ table,
                                        unsigned char* __restrict__ output RESIDUAL_PARAMETER
#if BESIDE
                                        ,
                                        const int* __restrict__ beside_weights,
                                        const int4* __restrict__ beside_channels,
                                        const unsigned char* __restrict__ beside_table,
                                        unsigned char* __restrict__ beside_output
#endif
) {
  if (!takes_part<32 * WARPS>()) return;
  const int lane = threadIdx.x % 32;
  int offsets[PIXELS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    const int pixel = min(pixel_of(block, p), OUT_H * OUT_W - 1);
    offsets[p] =
        pixel / OUT_W * (STRIDE_Y * Input::row) + pixel % OUT_W * (STRIDE_X * Input::pixel) + lane % 4 * (4 * LOADED);
  }
  const unsigned char* const image = image_of<Input>(input, block.z) + Input::start;
  Sums sums;
  clear(sums);
  accumulate<KERNEL_H, KERNEL_W>(
      sums, image - PAD_TOP * Input::row - PAD_LEFT * Input::pixel, offsets,
      weights + block.y * (KERNEL_H * KERNEL_W * GROUPS * 32 * WEIGHT_WORDS) + lane * PIECE);
  finish<Main, Output, true>(block, sums, channels, table, output, RESIDUAL_POINTER);
#if BESIDE
  clear(sums);
  accumulate<1, 1>(sums, image, offsets, beside_weights + block.y * (GROUPS * 32 * WEIGHT_WORDS) + lane * PIECE);
  finish<Beside, BesideOutput, false>(block, sums, beside_channels, beside_table, beside_output, nullptr);
#endif
}

#ifndef NETWORK_THREADS
extern "C" __global__ void __launch_bounds__(32 * WARPS)
    tensor(const unsigned char* __restrict__ input, const int* __restrict__ weights, const int4* __restrict__ channels,
           const unsigned char* __restrict__ table, unsigned char* __restrict__ output RESIDUAL_PARAMETER
#if BESIDE
           ,
           const int* __restrict__ beside_weights, const int4* __restrict__ beside_channels,
           const unsigned char* __restrict__ beside_table, unsigned char* __restrict__ beside_output
#endif
    ) {
  compute(current_block(), nullptr, input, weights, channels, table, output RESIDUAL_ARGUMENT
#if BESIDE
          ,
          beside_weights, beside_channels, beside_table, beside_output
#endif
  );
}
#endif
