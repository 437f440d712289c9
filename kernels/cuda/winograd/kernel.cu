// Winograd convolution 3x3, stride 1 or 2, on int16 products summed in wrapping int32: exact (model/winograd.py). At
// stride 2 optionally with the 1x1 shortcut of the same input. Every capital name is a define of launch.py.
//
// A block makes BLOCK_OUTPUTS channels of BLOCK_TILES tiles of one image, in three steps between barriers:
// 1. one thread per tile and PATCH_PAIRS pairs of channels reads the patch and stores B^T d B as words of two int16
//    channels;
// 2. one thread per position of the transformed tile, THREAD_TILES tiles and THREAD_OUTPUTS channels sums products;
// 3. the sums are exchanged through shared memory; one thread per tile and VECTOR channels computes the outputs.
#include "include/fused.cuh"
#if STRIDE == 2
#include "winograd/tile2_stride2.cuh"
#elif TILE == 2
#include "winograd/tile2.cuh"
#else
#include "winograd/tile4.cuh"
#endif

TENSOR(Input, IN);

constexpr int EDGE = STRIDE == 1 ? TILE + 2 : 2 * TILE + 1;
constexpr int POSITIONS = EDGE * EDGE;
constexpr int PRODUCTS = POSITIONS + (BESIDE ? TILE * TILE : 0);  // the shortcut's come last
constexpr int SIDE_TILES = BLOCK_TILES / THREAD_TILES;
constexpr int SIDE_OUTPUTS = BLOCK_OUTPUTS / THREAD_OUTPUTS;
constexpr int THREADS = PRODUCTS * SIDE_TILES * SIDE_OUTPUTS;

// Transformed input: [pair of channels][position][tile]; pairs are padded so that the stores of a warp use all banks.
constexpr int PAIR_WORDS = POSITIONS * BLOCK_TILES + PAIR_PADDING;
constexpr int WEIGHT_WORDS = PRODUCTS * BLOCK_OUTPUTS;  // of one pair of channels

// Sums: [product][tile][channel].
constexpr int PRODUCT_WORDS = BLOCK_TILES * BLOCK_OUTPUTS + SUM_PADDING;

// Number in the image of tile `in_block` of the block.
__device__ __forceinline__ int tile_of(const Block& block, int in_block) { return block.x * BLOCK_TILES + in_block; }

#include "winograd/transform.cuh"

#include "winograd/epilogue.cuh"

// The position of the transformed input of a product. The shortcut's pixels have odd rows and columns in the patch,
// which the transform does not change.
__device__ __forceinline__ int position_of(int product) {
  const int pixel = product - POSITIONS;
  return pixel < 0 ? product : (TILE + 1 + pixel / TILE) * EDGE + TILE + 1 + pixel % TILE;
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

__device__ __forceinline__ void clear(int (&sums)[THREAD_TILES][THREAD_OUTPUTS]) {
#pragma unroll
  for (int t = 0; t < THREAD_TILES; ++t)
#pragma unroll
    for (int o = 0; o < THREAD_OUTPUTS; ++o) sums[t][o] = 0;
}

// The outputs of one block of the layer. constants: [output channels] what is added to every Y. channels, table:
// epilogue.py's. residual: the tensor to add.
__device__ __forceinline__ void compute(const Block& block, int4* shared, const unsigned char* __restrict__ input,
                                        const int* __restrict__ weights, const int* __restrict__ constants,
                                        const int4* __restrict__ channels, const unsigned char* __restrict__ table,
                                        unsigned char* __restrict__ output RESIDUAL_PARAMETER
#if BESIDE
                                        ,
                                        const int4* __restrict__ beside_channels,
                                        const unsigned char* __restrict__ beside_table,
                                        unsigned char* __restrict__ beside_output
#endif
) {
  int* const words = reinterpret_cast<int*>(shared);
  const int product = quotient<SIDE_TILES * SIDE_OUTPUTS, THREADS>(threadIdx.x);
  const int side = remainder<SIDE_TILES * SIDE_OUTPUTS, THREADS>(threadIdx.x);
  const int side_output = quotient<SIDE_TILES, THREADS>(side), side_tile = remainder<SIDE_TILES, THREADS>(side);

  int sums[THREAD_TILES][THREAD_OUTPUTS];
  clear(sums);
  input = image_of<Input>(input, block.z);
  weights += block.y * (CHUNKS * CHUNK_QUADS * 2 * WEIGHT_WORDS) + product * BLOCK_OUTPUTS +
             side_output * THREAD_OUTPUTS;
#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    if (chunk > 0) __syncthreads();
    transform_input(block, input + chunk * CHUNK_QUADS * 4, words);
    __syncthreads();
    if (takes_part<THREADS>()) {
      const int* transformed = words + position_of(product) * BLOCK_TILES + side_tile * 4;
      if (CHUNKS == 1) multiply_step(transformed, weights, sums);  // outside of a loop the first sums need no addition
#pragma unroll 1
      for (int step = CHUNKS == 1; step < CHUNK_QUADS * 2 / UNROLL; ++step)
        multiply_step(transformed, weights, sums);
    }
  }

  __syncthreads();
  if (takes_part<THREADS>()) {
#pragma unroll
    for (int t = 0; t < THREAD_TILES; ++t)
      store_words<THREAD_OUTPUTS>(words + product * PRODUCT_WORDS + (t * SIDE_TILES + side_tile) * BLOCK_OUTPUTS +
                                      side_output * THREAD_OUTPUTS,
                                  sums[t]);
  }
  __syncthreads();
#pragma unroll 1
  for (int item = threadIdx.x; item < BLOCK_TILES * BLOCK_OUTPUTS / VECTOR; item += block_threads<THREADS>()) {
    finish(block, words, item, constants, channels, table, RESIDUAL_POINTER, output);
#if BESIDE
    finish_beside(block, words, item, beside_channels, beside_table, beside_output);
#endif
  }
}

#ifndef NETWORK_THREADS
extern "C" __global__ void __launch_bounds__(THREADS)
    winograd(const unsigned char* __restrict__ input, const int* __restrict__ weights,
             const int* __restrict__ constants, const int4* __restrict__ channels,
             const unsigned char* __restrict__ table, unsigned char* __restrict__ output RESIDUAL_PARAMETER
#if BESIDE
             ,
             const int4* __restrict__ beside_channels, const unsigned char* __restrict__ beside_table,
             unsigned char* __restrict__ beside_output
#endif
    ) {
  DYNAMIC_SHARED(int4, shared);
  compute(current_block(), shared, input, weights, constants, channels, table, output RESIDUAL_ARGUMENT
#if BESIDE
          ,
          beside_channels, beside_table, beside_output
#endif
  );
}
#endif
