// Convolutions of several groups, dilated ones, and weights of more than 16 bits. A thread computes four channels of
// PIXELS adjacent pixels from the words of input channels that their groups touch (README.md).
#include "include/pixel.cuh"

TENSOR(Input, IN);
TENSOR(Output, OUT);
REQUANTIZATION(Main, MAIN);

enum {
  QUADS = (OUT_C + 3) / 4,     // of output channels
  TILES = OUT_W / PIXELS,      // along a row
  TAP_WORDS = DIAGONAL ? (WEIGHT_BITS == 32 ? 4 : 2) : WEIGHT_BITS / 2  // weights of one word of input
};

// Weights of a word of input channels times the word: to four sums, DIAGONAL: channel i of the word to sum i alone.
__device__ __forceinline__ void multiply(int (&sums)[4], int x, const int* w) {
#if WEIGHT_BITS == 8
#pragma unroll
  for (int k = 0; k < 4; ++k) sums[k] = dot4<(bool)Input::is_signed>(x, w[k], sums[k]);
#elif WEIGHT_BITS == 16
  int low, high;
  unpack<Input>(x, low, high);
#if DIAGONAL
  sums[0] = multiply_add_low(low, w[0], sums[0]), sums[1] = multiply_add_high(low, w[0], sums[1]);
  sums[2] = multiply_add_low(high, w[1], sums[2]), sums[3] = multiply_add_high(high, w[1], sums[3]);
#else
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    sums[k] = multiply_add_high(low, w[2 * k], multiply_add_low(low, w[2 * k], sums[k]));
    sums[k] = multiply_add_high(high, w[2 * k + 1], multiply_add_low(high, w[2 * k + 1], sums[k]));
  }
#endif
#else
  int values[4];
  unpack_four<Input>(x, values);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
#if DIAGONAL
    sums[i] = (int)((unsigned)sums[i] + (unsigned)values[i] * (unsigned)w[i]);
#else
#pragma unroll
    for (int k = 0; k < 4; ++k) sums[k] = (int)((unsigned)sums[k] + (unsigned)values[i] * (unsigned)w[4 * k + i]);
#endif
  }
#endif
}

// Four channels of a pixel; a packed tensor has no ring, so what lies outside of it is the zero point.
__device__ __forceinline__ int load_pixel(const unsigned char* __restrict__ image, int y, int x, int channel) {
  if (IN_CHECKED && (y < 0 || y >= IN_H || x < 0 || x >= IN_W)) return IN_FILL;
  return load_four<Input>(image + offset_of<Input>(y, x, channel), channel);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    grouped(const unsigned char* __restrict__ input, const int* __restrict__ weights, const int4* __restrict__ channels,
            const unsigned char* __restrict__ table, unsigned char* __restrict__ output) {
  const int item = (int)(blockIdx.x * THREADS + threadIdx.x);
  if (item >= OUT_H * TILES * QUADS) return;
  const int quad = item % QUADS, tile = item / QUADS, row = tile / TILES, column = tile % TILES * PIXELS;
  const int first =
      GROUP_WORDS == IN_FOURS ? 0 : min(4 * quad / GROUP_OUTPUTS * GROUP_INPUTS / 4, IN_FOURS - GROUP_WORDS);
  const unsigned char* image = image_of<Input>(input);
  const int* w = weights + quad * (KERNEL_H * GROUP_WORDS * KERNEL_W * TAP_WORDS);
  constexpr int unrolled = UNROLLED;  // a pragma's macro is expanded by NVRTC up to 12.9 only

  int sums[PIXELS][4];
  Channel constants[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    constants[k] = load_channel<Main>(channels, 4 * quad + k);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) sums[p][k] = constants[k].start;
  }
#pragma unroll 1
  for (int i = 0; i < KERNEL_H; ++i) {
    const int y = row * STRIDE_Y - PAD_TOP + i * DILATION_Y;
#pragma unroll 1
    for (int word = 0; word < GROUP_WORDS; ++word) {
#pragma unroll unrolled
      for (int j = 0; j < KERNEL_W; ++j) {
        int taps[TAP_WORDS];
        load_words<TAP_WORDS>(taps, w);
        w += TAP_WORDS;
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
          const int x = (column + p) * STRIDE_X - PAD_LEFT + j * DILATION_X;
          multiply(sums[p], load_pixel(image, y, x, 4 * (first + word)), taps);
        }
      }
    }
  }
  unsigned char* out = output + (unsigned long long)blockIdx.z * Output::image * ((int)Main::form == RAW ? 4 : 1);
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    int values[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      values[k] = requantize<Main>(sums[p][k], constants[k], table + (4 * quad + k) * 256);
    store_pixel<Main, Output, 4>(out, offset_of<Output>(row, column + p, 4 * quad), values, 4 * quad);
  }
}
