// Winograd convolution 3x3, stride 1, on int16 products summed in wrapping int32: exact (model/winograd.py).
//
// A block makes BLOCK_OUTPUTS channels of BLOCK_TILES tiles of one image, in three steps between barriers:
// 1. one thread per tile and four channels reads the patch and stores B^T d B as words of two int16 channels;
// 2. one thread per position of the transformed tile, THREAD_TILES tiles and THREAD_OUTPUTS channels sums products;
// 3. the sums change hands through shared memory; one thread per tile and VECTOR channels finishes the outputs.
#include "requantize.cuh"
#include "tensor.cuh"
#if TILE == 2
#include "winograd/tile2.cuh"
#else
#include "winograd/tile4.cuh"
#endif

REQUANTIZATION(Main, MAIN);
TENSOR(Input, IN);
TENSOR(Output, OUT);
#ifdef ADD_OWN
TENSOR(Residual, RESIDUAL);
#endif

constexpr int EDGE = TILE + 2;
constexpr int POSITIONS = EDGE * EDGE;
constexpr int SIDE_TILES = BLOCK_TILES / THREAD_TILES;
constexpr int SIDE_OUTPUTS = BLOCK_OUTPUTS / THREAD_OUTPUTS;
constexpr int THREADS = POSITIONS * SIDE_TILES * SIDE_OUTPUTS;

// Transformed input: [pair of channels][position][tile]; pairs are apart so that a warp's stores meet all banks.
constexpr int PAIR_WORDS = POSITIONS * BLOCK_TILES + PAIR_PADDING;
constexpr int WEIGHT_WORDS = POSITIONS * BLOCK_OUTPUTS;  // of one pair of channels

// Sums: [position][tile][channel].
constexpr int POSITION_WORDS = BLOCK_TILES * BLOCK_OUTPUTS + SUM_PADDING;

// Where a thread's i-th tile is among the block's, and where tile t of the block is in shared memory: four neighbours
// in memory are one thread's, and threads side by side have tiles side by side.
__device__ __forceinline__ int column(int tile) {
  const int i = tile / SIDE_TILES, side = tile % SIDE_TILES;
  return i / 4 * (4 * SIDE_TILES) + side * 4 + i % 4;
}

// B^T d B of one tile and the four channels whose bytes are at `patch`.
__device__ __forceinline__ void transform_patch(const unsigned char* __restrict__ patch, int* transformed) {
  unsigned bytes[EDGE][EDGE];
#pragma unroll
  for (int y = 0; y < EDGE; ++y)
#pragma unroll
    for (int x = 0; x < EDGE; ++x) {
      const unsigned word = __ldg(reinterpret_cast<const unsigned*>(patch + y * Input::row + x * Input::pixel));
      bytes[y][x] = Input::is_signed ? word ^ 0x80808080u : word;
    }
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    unsigned d[EDGE][EDGE];
#pragma unroll
    for (int x = 0; x < EDGE; ++x) {
      unsigned line[EDGE];
#pragma unroll
      for (int y = 0; y < EDGE; ++y) line[y] = (unsigned)permute((int)bytes[y][x], half ? 0x4342 : 0x4140);
      transform_line(line, 0);
#pragma unroll
      for (int y = 0; y < EDGE; ++y) d[y][x] = line[y];
    }
    // A word is low + 65536 * high of two signed values; adding 32768 keeps the borrow out of the high half, and the
    // exclusive or makes the low half a two's complement again.
#pragma unroll
    for (int y = 0; y < EDGE; ++y) {
      transform_line(d[y], 0x8000u);
#pragma unroll
      for (int x = 0; x < EDGE; ++x)
        transformed[half * CHUNK_QUADS * PAIR_WORDS + (y * EDGE + x) * BLOCK_TILES] = (int)(d[y][x] ^ 0x8000u);
    }
  }
}

__device__ __forceinline__ int tile_of(int in_block) { return blockIdx.x * BLOCK_TILES + in_block; }

__device__ __forceinline__ void transform_input(const unsigned char* __restrict__ image, int* transformed) {
  constexpr int ITEMS = BLOCK_TILES * CHUNK_QUADS;
#pragma unroll 1
  for (int item = threadIdx.x; item < ITEMS; item += THREADS) {
    const int quad = item % CHUNK_QUADS, in_block = item / CHUNK_QUADS;
    const int tile = min(tile_of(in_block), TILES - 1);
    const int y = tile / TILES_ACROSS * TILE - PAD_TOP, x = tile % TILES_ACROSS * TILE - PAD_LEFT;
    transform_patch(image + offset_of<Input>(y, x, quad * 4),
                    transformed + quad * PAIR_WORDS + column(in_block));
  }
}

// sums[t][o] += products of one pair of channels.
__device__ __forceinline__ void multiply(const int* transformed, const int* __restrict__ weights,
                                         int (&sums)[THREAD_TILES][THREAD_OUTPUTS]) {
  int v[THREAD_TILES], u[THREAD_OUTPUTS];
#pragma unroll
  for (int i = 0; i < THREAD_TILES / 4; ++i) load_words<4>(v + 4 * i, transformed + 4 * SIDE_TILES * i);
  load_words<THREAD_OUTPUTS>(u, weights);
#pragma unroll
  for (int t = 0; t < THREAD_TILES; ++t)
#pragma unroll
    for (int o = 0; o < THREAD_OUTPUTS; ++o) sums[t][o] = multiply_add_low(v[t], u[o], sums[t][o]);
#pragma unroll
  for (int t = 0; t < THREAD_TILES; ++t)
#pragma unroll
    for (int o = 0; o < THREAD_OUTPUTS; ++o) sums[t][o] = multiply_add_high(v[t], u[o], sums[t][o]);
}

// The next UNROLL pairs of channels.
__device__ __forceinline__ void multiply_step(const int*& transformed, const int* __restrict__& weights,
                                              int (&sums)[THREAD_TILES][THREAD_OUTPUTS]) {
#pragma unroll
  for (int i = 0; i < UNROLL; ++i) multiply(transformed + i * PAIR_WORDS, weights + i * WEIGHT_WORDS, sums);
  transformed += UNROLL * PAIR_WORDS;
  weights += UNROLL * WEIGHT_WORDS;
}

#if VECTOR == 4
typedef unsigned Bytes;
__device__ __forceinline__ Bytes packed(const int (&y)[4]) { return (Bytes)pack_bytes(y[0], y[1], y[2], y[3]); }
#else
typedef unsigned short Bytes;
__device__ __forceinline__ Bytes packed(const int (&y)[2]) { return (Bytes)__byte_perm(y[0], y[1], 0x0040); }
#endif

// Adds the constant of each channel and multiplies out A^T M A, down the columns of M: left[v][y] is row y of A^T M.
__device__ __forceinline__ void load_columns(const int* sums, const int* constants,
                                             unsigned (&left)[VECTOR][TILE][EDGE]) {
#pragma unroll
  for (int x = 0; x < EDGE; ++x) {
    int m[EDGE][VECTOR];
#pragma unroll
    for (int y = 0; y < EDGE; ++y) load_words<VECTOR>(m[y], sums + (y * EDGE + x) * POSITION_WORDS);
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) {
      unsigned line[EDGE];
#pragma unroll
      for (int y = 0; y < EDGE; ++y) line[y] = (unsigned)m[y][v];
      if (x == 1) line[1] += (unsigned)constants[v];
      inverse_line(line);
#pragma unroll
      for (int y = 0; y < TILE; ++y) left[v][y][x] = line[y];
    }
  }
}

// One output: Y = 2**SHIFT * ODD * y modulo 2**32, and the constant has put y + 2**(31 - SHIFT), which is not negative,
// in y's place; channel.start takes it back.
__device__ __forceinline__ int output_of(unsigned y, const Channel& channel, const unsigned char* __restrict__ table) {
  return requantize<Main>((int)(y * ODD_INVERSE >> SHIFT) + channel.start, channel, table);
}

__device__ __forceinline__ void finish(const int* sums, int in_block, int in_outputs, const int* __restrict__ constants,
                                       const int4* __restrict__ channels, const unsigned char* __restrict__ table,
#ifdef ADD_OWN
                                       const unsigned char* __restrict__ residual,
#endif
                                       unsigned char* __restrict__ output) {
  const int tile = tile_of(in_block), top = tile / TILES_ACROSS * TILE, left_most = tile % TILES_ACROSS * TILE;
  const int first = blockIdx.y * BLOCK_OUTPUTS + in_outputs;
  if (tile >= TILES || first >= Output::channels) return;
  int constant[VECTOR];
  load_words<VECTOR>(constant, constants + first);
  unsigned left[VECTOR][TILE][EDGE];
  load_columns(sums + in_block * BLOCK_OUTPUTS + in_outputs, constant, left);
  Channel channel[VECTOR];
#pragma unroll
  for (int v = 0; v < VECTOR; ++v) channel[v] = load_channel<Main>(channels, first + v);
  output += offset_of<Output>(top, left_most, first);
#ifdef ADD_OWN
  residual += offset_of<Residual>(top, left_most, first);
#endif
#pragma unroll
  for (int y = 0; y < TILE; ++y) {
    if (top + y >= OUTPUT_HEIGHT) break;
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) inverse_line(left[v][y]);
#pragma unroll
    for (int x = 0; x < TILE; ++x) {
      if (left_most + x >= OUTPUT_WIDTH) break;
      int bytes[VECTOR];
#pragma unroll
      for (int v = 0; v < VECTOR; ++v)
        bytes[v] = output_of(left[v][y][x], channel[v], table + (first + v) * TABLE_BYTES);
#ifdef ADD_OWN
      const unsigned others = *reinterpret_cast<const Bytes*>(residual + y * Residual::row + x * Residual::pixel);
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) {
        const unsigned byte = others >> 8 * v & 255;
        bytes[v] = add_residual(bytes[v], Residual::is_signed ? (int)(signed char)byte : (int)byte);
      }
#endif
      *reinterpret_cast<Bytes*>(output + y * Output::row + x * Output::pixel) = packed(bytes);
    }
  }
}

__device__ __forceinline__ void clear(int (&sums)[THREAD_TILES][THREAD_OUTPUTS]) {
#pragma unroll
  for (int t = 0; t < THREAD_TILES; ++t)
#pragma unroll
    for (int o = 0; o < THREAD_OUTPUTS; ++o) sums[t][o] = 0;
}

// constants: [output channels] what is added to every Y. channels, table: requantize.py's. residual: the tensor to add.
extern "C" __global__ void __launch_bounds__(THREADS)
    winograd(const unsigned char* __restrict__ input, const int* __restrict__ weights,
             const int* __restrict__ constants, const int4* __restrict__ channels,
             const unsigned char* __restrict__ table, unsigned char* __restrict__ output
#ifdef ADD_OWN
             ,
             const unsigned char* __restrict__ residual
#endif
    ) {
  DYNAMIC_SHARED(int4, shared);
  int* const words = reinterpret_cast<int*>(shared);
  const int position = threadIdx.x / (SIDE_TILES * SIDE_OUTPUTS);
  const int side_tile = threadIdx.x % SIDE_TILES, side_output = threadIdx.x / SIDE_TILES % SIDE_OUTPUTS;

  int sums[THREAD_TILES][THREAD_OUTPUTS];
  clear(sums);
  input = image_of<Input>(input);
  weights += blockIdx.y * (CHUNKS * CHUNK_QUADS * 2 * WEIGHT_WORDS) + position * BLOCK_OUTPUTS +
             side_output * THREAD_OUTPUTS;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    if (chunk > 0) __syncthreads();
    transform_input(input + chunk * CHUNK_QUADS * 4, words);
    __syncthreads();
    const int* transformed = words + position * BLOCK_TILES + side_tile * 4;
    if (CHUNKS == 1) multiply_step(transformed, weights, sums);  // outside of the loop it adds to nothing
#pragma unroll 1
    for (int step = CHUNKS == 1; step < CHUNK_QUADS * 2 / UNROLL; ++step)
      multiply_step(transformed, weights, sums);
  }

  output = image_of<Output>(output);
#ifdef ADD_OWN
  residual = image_of<Residual>(residual);
#endif
  __syncthreads();
#pragma unroll
  for (int t = 0; t < THREAD_TILES; ++t)
    store_words<THREAD_OUTPUTS>(words + position * POSITION_WORDS + (t * SIDE_TILES + side_tile) * BLOCK_OUTPUTS +
                                    side_output * THREAD_OUTPUTS,
                                sums[t]);
  __syncthreads();
  constexpr int VECTORS = BLOCK_OUTPUTS / VECTOR, ITEMS = BLOCK_TILES * VECTORS;
#pragma unroll 1
  for (int item = threadIdx.x; item < ITEMS; item += THREADS)
    finish(words, item / VECTORS, item % VECTORS * VECTOR, constants, channels, table,
#ifdef ADD_OWN
           residual,
#endif
           output);
}
