// Global average pool and dense layer, together or one of them (README.md). Each block computes the pool, then one
// output per warp.
#include "include/requantize.cuh"
#include "include/tensor.cuh"

TENSOR(Input, IN);
#if POOL
REQUANTIZATION(Pool, POOL);
#endif
#if DENSE
REQUANTIZATION(Dense, DENSE);
#endif

enum {
  FOURS = (IN_C + 3) / 4,          // words of a pixel
  SLICES = THREADS > FOURS ? THREADS / FOURS : 1,  // threads that share the sum of a word
  PIXEL_COUNT = IN_H * IN_W,
  WORD_TRIPS = (FOURS * SLICES + THREADS - 1) / THREADS,
  PIXEL_TRIPS = (PIXEL_COUNT + SLICES - 1) / SLICES,
  CHANNEL_TRIPS = (FOURS * 4 + THREADS - 1) / THREADS,
  // Turns of a loop whose loads are under way together: the block is almost alone on its multiprocessor.
  PIXELS_TOGETHER = PIXEL_TRIPS < 8 ? PIXEL_TRIPS : 8,
  PIXELS_ARE_WHOLE = PIXEL_COUNT % (SLICES * PIXELS_TOGETHER) == 0,  // every turn has a pixel
  SLICES_TOGETHER = SLICES < 8 ? SLICES : 8
};

#if POOL
// Means of all channels to `means`, through `partial` [slice][channel]. Ends with a barrier.
__device__ __forceinline__ void average(int* means, int* partial, const unsigned char* __restrict__ image,
                                        const int4* __restrict__ channels, const unsigned char* __restrict__ table) {
#pragma unroll 1
  for (int trip = 0; trip < WORD_TRIPS; ++trip) {
    const int item = trip * THREADS + (int)threadIdx.x, four = item % FOURS, slice = item / FOURS;
    if (takes_part<THREADS>() && item < FOURS * SLICES) {
      int sums[4] = {0, 0, 0, 0};
#pragma unroll 1
      for (int i = 0; i < PIXEL_TRIPS; i += PIXELS_TOGETHER) {
        int words[PIXELS_TOGETHER];
#pragma unroll
        for (int k = 0; k < PIXELS_TOGETHER; ++k) {
          const int pixel = slice + (i + k) * SLICES, inside = min(pixel, PIXEL_COUNT - 1);
          const int word = load_four<Input>(image + offset_of<Input>(inside / IN_W, inside % IN_W, 4 * four), 4 * four);
          words[k] = PIXELS_ARE_WHOLE || pixel < PIXEL_COUNT ? word : 0;
        }
#pragma unroll
        for (int k = 0; k < PIXELS_TOGETHER; ++k) {
          int values[4];
          unpack_four<Input>(words[k], values);
#pragma unroll
          for (int j = 0; j < 4; ++j) sums[j] += values[j];
        }
      }
      store_words<4>(partial + item * 4, sums);
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int trip = 0; trip < CHANNEL_TRIPS; ++trip) {
    const int channel = trip * THREADS + (int)threadIdx.x;
    if (takes_part<THREADS>() && channel < FOURS * 4) {
      const Channel constants = load_channel<Pool>(channels, channel);
      int sum = constants.start;
#pragma unroll 1
      for (int slice = 0; slice < SLICES; slice += SLICES_TOGETHER) {
#pragma unroll
        for (int k = 0; k < SLICES_TOGETHER; ++k)
          if (slice + k < SLICES) sum += partial[(slice + k) * FOURS * 4 + channel];
      }
      const int mean = requantize<Pool>(sum, constants, table + channel * 256);
      means[channel] = POOL_LO < 0 ? (int)(signed char)mean : mean & 255;
    }
  }
  __syncthreads();
}
#endif

#if DENSE
// Four weights of a row, of WEIGHT_BYTES each.
__device__ __forceinline__ void load_weights(int* w, const unsigned char* __restrict__ weights, int four) {
#if WEIGHT_BYTES == 4
  load_words<4>(w, reinterpret_cast<const int*>(weights) + 4 * four);
#elif WEIGHT_BYTES == 2
  const int2 pairs = __ldg(reinterpret_cast<const int2*>(weights) + four);
  w[0] = (short)pairs.x, w[1] = pairs.x >> 16, w[2] = (short)pairs.y, w[3] = pairs.y >> 16;
#else
  struct Signed { enum { is_signed = 1 }; };
  unpack_four<Signed>(__ldg(reinterpret_cast<const int*>(weights) + four), w);
#endif
}
#endif

// The outputs of one block of the layers.
__device__ __forceinline__ void compute(const Block& block, int4* shared, const unsigned char* __restrict__ input,
                                        unsigned char* __restrict__ output
#if POOL
                                        ,
                                        const int4* __restrict__ pool_channels,
                                        const unsigned char* __restrict__ pool_table
#endif
#if DENSE
                                        ,
                                        const unsigned char* __restrict__ weights,
                                        const int4* __restrict__ dense_channels,
                                        const unsigned char* __restrict__ dense_table
#endif
) {
  const unsigned char* image = image_of<Input>(input, block.z);
  unsigned char* out = output + (unsigned long long)block.z * OUT_IMAGE * OUT_ELEMENT;
#if POOL
  int* means = reinterpret_cast<int*>(shared);
  average(means, means + FOURS * 4, image, pool_channels, pool_table);
#endif
#if !DENSE
#pragma unroll 1
  for (int trip = 0; trip < CHANNEL_TRIPS; ++trip) {
    const int channel = trip * THREADS + (int)threadIdx.x;
    if (takes_part<THREADS>() && channel < IN_C) out[OUT_START + channel] = (unsigned char)means[channel];
  }
#else
  const int lane = (int)threadIdx.x % 32, filter = (int)(block.x * (THREADS / 32) + threadIdx.x / 32);
  if (!takes_part<THREADS>() || filter >= OUT_C) return;  // a whole warp
  const unsigned char* row = weights + (unsigned long long)filter * (DENSE_FOURS * 4 * WEIGHT_BYTES);
  unsigned sum = 0;
#pragma unroll 1
  for (int trip = 0; trip < (DENSE_FOURS + 31) / 32; ++trip) {
    const int four = trip * 32 + lane;
    if (four < DENSE_FOURS) {
      int x[4], w[4];
#if POOL
      load_words<4>(x, means + 4 * four);
#else
      const int line = four / LINE_FOURS, within = four % LINE_FOURS * 4;
      unpack_four<Input>(load_four<Input>(image + offset_of<Input>(line, 0, within), within), x);
#endif
      load_weights(w, row, four);
#pragma unroll
      for (int i = 0; i < 4; ++i) sum += (unsigned)x[i] * (unsigned)w[i];
    }
  }
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
  if (lane == 0) {
    const Channel constants = load_channel<Dense>(dense_channels, filter);
    const int y = requantize<Dense>((int)(sum + (unsigned)constants.start), constants, dense_table + filter * 256);
#if DENSE_FORM == 0
    reinterpret_cast<int*>(out)[OUT_START + filter] = y;
#else
    out[OUT_START + filter] = (unsigned char)y;
#endif
  }
#endif
}

#ifndef NETWORK_THREADS
extern "C" __global__ void __launch_bounds__(THREADS)
    pool_dense(const unsigned char* __restrict__ input, unsigned char* __restrict__ output
#if POOL
               ,
               const int4* __restrict__ pool_channels, const unsigned char* __restrict__ pool_table
#endif
#if DENSE
               ,
               const unsigned char* __restrict__ weights, const int4* __restrict__ dense_channels,
               const unsigned char* __restrict__ dense_table
#endif
    ) {
  DYNAMIC_SHARED(int4, shared);
  compute(current_block(), shared, input, output
#if POOL
          ,
          pool_channels, pool_table
#endif
#if DENSE
          ,
          weights, dense_channels, dense_table
#endif
  );
}
#endif
