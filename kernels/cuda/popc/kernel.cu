// Convolutions and dense layers by popcount over bit planes, with requantization, residual addition and clamp. Tiles,
// layouts and bounds: README.md. Every capital name is a define of launch.py.
//
// A block computes BLOCK_PIXELS outputs in image order of BLOCK_FILTERS channels; a thread PIXELS of them times FILTERS
// channels, over every SPLIT-th word of 32 inputs. The inputs of an output are one line of bits, its window; groups of
// four channels of a pixel, a word of bytes, are called fours.
#include "include/fused.cuh"

enum {
  THREADS = THREADS_P * THREADS_C * SPLIT,
  BLOCK_PIXELS = THREADS_P * PIXELS,
  BLOCK_FILTERS = THREADS_C * FILTERS,
  PIXEL_FOURS = (IN_C + 3) / 4,
  ROW_FOURS = KERNEL_W * PIXEL_FOURS,
  FOURS = KERNEL_H * ROW_FOURS,  // of a window
  STAGED_FOURS = PASSES * CHUNK * 8,
  TRIP_WORDS = THREADS / BLOCK_PIXELS,  // whose windows all threads make at once
  WINDOW_TRIPS = (CHUNK + AT_ONCE * TRIP_WORDS - 1) / (AT_ONCE * TRIP_WORDS),
  WEIGHTS = BASES * CHUNK * BLOCK_FILTERS / 4  // vectors that are staged at once
};

// Position of a thread in the block: its first pixel and channel, and which words it sums.
struct Place {
  int pixel, filter, split;
};

__device__ __forceinline__ Place place_of(int thread) {
  // The threads of one sum are adjacent lanes; then those of adjacent channels, so that they write adjacent bytes.
  const int group = thread / SPLIT;
  const Place place = {group / THREADS_C * PIXELS, group % THREADS_C * FILTERS, thread % SPLIT};
  return place;
}

#include "popc/windows.cuh"

// The first of the vectors of weights that a thread copies to shared memory, loaded early so that it waits once.
__device__ __forceinline__ void load_ahead(int4 (&ahead)[AHEAD], const int4* __restrict__ from) {
#pragma unroll
  for (int i = 0; i < AHEAD; ++i)
    ahead[i] = __ldg(from + min(i * THREADS + (int)threadIdx.x, WEIGHTS - 1));
}

__device__ __forceinline__ void stage_weights(int4* to, const int4* __restrict__ from, const int4 (&ahead)[AHEAD]) {
#pragma unroll
  for (int i = 0; i < AHEAD; ++i)
    if (i * THREADS + (int)threadIdx.x < WEIGHTS) to[i * THREADS + threadIdx.x] = ahead[i];
#pragma unroll 1
  for (int i = AHEAD * THREADS + threadIdx.x; i < WEIGHTS; i += THREADS) to[i] = __ldg(from + i);
}

__device__ __forceinline__ void load_factors(int (&factor)[FILTERS], const int4* __restrict__ from) {
#pragma unroll
  for (int k = 0; k < FILTERS; k += 4) {
    const int4 four = __ldg(from + k / 4);
    factor[k] = four.x, factor[k + 1] = four.y, factor[k + 2] = four.z, factor[k + 3] = four.w;
  }
}

// Add counts of pixels times the factors of the filters, modulo 2**32.
__device__ __forceinline__ void add_multiples(int (&sums)[PIXELS][FILTERS], const int (&counts)[PIXELS][FILTERS],
                                              const int (&factor)[FILTERS]) {
#pragma unroll
  for (int p = 0; p < PIXELS; ++p)
#pragma unroll
    for (int k = 0; k < FILTERS; ++k)
      sums[p][k] = (int)((unsigned)sums[p][k] + (unsigned)counts[p][k] * (unsigned)factor[k]);
}

// Add the products of COUNT words of this thread's split, 1 or 3. Of three, an adder makes two before ones are counted:
// one of the bits that are set once or three times, one of those that are set twice or three times.
template <int COUNT>
__device__ __forceinline__ void add_words(int (&counts)[PIXELS][FILTERS], const int* from, const int* with) {
  int w[COUNT][FILTERS];
#pragma unroll
  for (int n = 0; n < COUNT; ++n) load_words<FILTERS>(w[n], with + n * SPLIT * BLOCK_FILTERS);
#pragma unroll
  for (int j = 0; j < BITS; ++j) {
    int x[COUNT][PIXELS];
#pragma unroll
    for (int n = 0; n < COUNT; ++n) load_words<PIXELS>(x[n], from + (n * SPLIT * BITS + j) * BLOCK_PIXELS);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
#pragma unroll
      for (int k = 0; k < FILTERS; ++k) {
        unsigned a = (unsigned)(x[0][p] & w[0][k]), count = (unsigned)counts[p][k];
        if (COUNT == 3) {
          const unsigned b = (unsigned)(x[COUNT / 2][p] & w[COUNT / 2][k]);
          const unsigned c = (unsigned)(x[COUNT - 1][p] & w[COUNT - 1][k]);
          count += (unsigned)__popc(set_twice(a, b, c)) << (j + 1);
          a = set_oddly(a, b, c);
        }
        counts[p][k] = (int)(count + ((unsigned)__popc(a) << j));
      }
  }
}

// The products of the staged words of this thread's split.
__device__ __forceinline__ void accumulate(int (&sums)[PIXELS][FILTERS], const int* windows, const int* totals,
                                           const int* weights, const int4* __restrict__ factors, const Place& place) {
  const int* with = weights + place.split * BLOCK_FILTERS + place.filter;
  int counts[PIXELS][FILTERS], factor[FILTERS];
#pragma unroll 1
  for (int base = 0; base < BASES; ++base) {
    const int *from = windows + place.split * (BITS * BLOCK_PIXELS) + place.pixel, *word_with = with;
    load_factors(factor, factors);  // early, so that nothing waits for them
#pragma unroll
    for (int i = 0; i < PIXELS * FILTERS; ++i) counts[i / FILTERS][i % FILTERS] = 0;
#pragma unroll 1
    for (int word = 0; word < CHUNK / SPLIT; word += TOGETHER) {
#pragma unroll
      for (int i = 0; i + 3 <= TOGETHER; i += 3)
        add_words<3>(counts, from + i * SPLIT * BITS * BLOCK_PIXELS, word_with + i * SPLIT * BLOCK_FILTERS);
#pragma unroll
      for (int i = TOGETHER / 3 * 3; i < TOGETHER; ++i)
        add_words<1>(counts, from + i * SPLIT * BITS * BLOCK_PIXELS, word_with + i * SPLIT * BLOCK_FILTERS);
      from += TOGETHER * SPLIT * BITS * BLOCK_PIXELS;
      word_with += TOGETHER * SPLIT * BLOCK_FILTERS;
    }
    add_multiples(sums, counts, factor);
    with += CHUNK * BLOCK_FILTERS;
    factors += FACTOR_VECTORS;
  }
#if TOTALS
  load_factors(factor, factors);
  const int* total = totals + place.split * BLOCK_PIXELS + place.pixel;
#pragma unroll
  for (int i = 0; i < PIXELS * FILTERS; ++i) counts[i / FILTERS][i % FILTERS] = 0;
#pragma unroll 1
  for (int word = 0; word < CHUNK / SPLIT; ++word) {
    int x[PIXELS];
    load_words<PIXELS>(x, total);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
#pragma unroll
      for (int k = 0; k < FILTERS; ++k) counts[p][k] += x[p];
    total += SPLIT * BLOCK_PIXELS;
  }
  add_multiples(sums, counts, factor);
#endif
}

// Requantize, add the residual, clamp and write PIXELS pixels of FILTERS channels.
__device__ __forceinline__ void finish(int (&sums)[PIXELS][FILTERS], const int4* __restrict__ channels,
                                       const unsigned char* __restrict__ table, unsigned char* __restrict__ output,
                                       const unsigned char* __restrict__ residual, int filter, int pixel,
                                       unsigned image) {
  output += (unsigned long long)image * Output::image * ((int)Main::form == RAW ? 4 : 1);
#pragma unroll
  for (int k = 0; k < FILTERS; ++k) {
    const int4* first = channels + k * CHANNEL_VECTORS + filter / FILTERS;  // [half][k][vector]
    const Channel channel = channel_at<Main>(first, first + FILTERS * CHANNEL_VECTORS);
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
      sums[p][k] = requantize<Main>((int)((unsigned)sums[p][k] + (unsigned)channel.start), channel,
                                    table + (filter + k) * 256);
  }
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    if (OUT_CHECKED && pixel + p >= OUT_H * OUT_W) return;
    const int row = (pixel + p) / OUT_W, column = pixel + p - row * OUT_W;
#ifdef ADD_OWN
    add_pixel<Residual>(sums[p], image_of<Residual>(residual, image) + offset_of<Residual>(row, column, filter),
                        filter);
#endif
    store_pixel<Main, Output>(output, offset_of<Output>(row, column, filter), sums[p], filter);
  }
}

// The outputs of one block of the layer. factors: [base, the sum of inputs last][filter].
__device__ __forceinline__ void compute(const Block& block, int4* shared, const unsigned char* __restrict__ input,
                                        const int4* __restrict__ weights, const int4* __restrict__ factors,
                                        const int4* __restrict__ channels, const unsigned char* __restrict__ table,
                                        unsigned char* __restrict__ output RESIDUAL_PARAMETER) {
  int* windows = reinterpret_cast<int*>(shared);
  int* totals = windows + TOTALS_AT;
  int4* staged = shared + WEIGHTS_AT / 4;
  const Place place = place_of(threadIdx.x);
  const int first_pixel = (int)block.x * BLOCK_PIXELS, filter = (int)block.y * BLOCK_FILTERS + place.filter;
  const unsigned char* image = input + (unsigned long long)block.z * IN_IMAGE;
  int sums[PIXELS][FILTERS];
#pragma unroll
  for (int i = 0; i < PIXELS * FILTERS; ++i) sums[i / FILTERS][i % FILTERS] = 0;
#pragma unroll 1
  for (int pass = 0; pass < PASSES; ++pass) {
    if (pass > 0) __syncthreads();
    if (takes_part<THREADS>()) {
      const int4* from = weights + ((int)block.y * PASSES + pass) * WEIGHTS;
      int4 ahead[AHEAD];
      load_ahead(ahead, from);
      stage_windows(windows, totals, image, first_pixel, pass);
      stage_weights(staged, from, ahead);
    }
    __syncthreads();
    if (takes_part<THREADS>())
      accumulate(sums, windows, totals, reinterpret_cast<const int*>(staged), factors + filter / 4, place);
  }
  if (!takes_part<THREADS>()) return;
#pragma unroll
  for (int distance = SPLIT / 2; distance > 0; distance /= 2)
#pragma unroll
    for (int i = 0; i < PIXELS * FILTERS; ++i)
      sums[i / FILTERS][i % FILTERS] += __shfl_xor_sync(0xffffffffu, sums[i / FILTERS][i % FILTERS], distance);
  if (SPLIT > 1 && place.split > 0) return;
  finish(sums, channels, table, output, RESIDUAL_POINTER, filter, first_pixel + place.pixel, block.z);
}

#ifndef NETWORK_THREADS
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    popc(const unsigned char* __restrict__ input, const int4* __restrict__ weights, const int4* __restrict__ factors,
         const int4* __restrict__ channels, const unsigned char* __restrict__ table,
         unsigned char* __restrict__ output RESIDUAL_PARAMETER) {
  DYNAMIC_SHARED(int4, shared);
  compute(current_block(), shared, input, weights, factors, channels, table, output RESIDUAL_ARGUMENT);
}
#endif
