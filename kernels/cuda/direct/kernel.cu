// Direct convolution with requantization, residual addition, clamp, and optionally the 1x1 shortcut of the same input.
// Tiles, layouts and bounds: README.md. Every capital name is a define of launch.py.
//
// A block computes TILE_Y x (TILE_X * PIXELS) outputs of THREADS_C * FILTERS channels; a thread PIXELS neighbours in a
// row times FILTERS channels, over every SPLIT-th plane of input channels. A plane is one word (DEPTH channels) per
// pixel.
#include "include/fused.cuh"

enum {
  GROUP = TILE_X * TILE_Y * THREADS_C,
  THREADS = GROUP * SPLIT,
  BLOCK_FILTERS = THREADS_C * FILTERS,
  WORDS = (FILTERS + FIELDS - 1) / FIELDS,  // of weights for one tap and word of channels, each of FIELDS filters
  BLOCK_WORDS = THREADS_C * WORDS,
  PATCH_H = (TILE_Y - 1) * STRIDE_Y + KERNEL_H,
  PATCH_W = (TILE_X * PIXELS - 1) * STRIDE_X + KERNEL_W,
  VECTOR = VECTOR_BYTES / 4,
  LOADS = IN_BYTES ? 4 : VECTOR,  // values that a thread loads of a pixel
  VECTORS = CHUNK * DEPTH / VECTOR_BYTES,  // of one pixel
  PATCH_ITEMS = VECTORS * PATCH_H * PATCH_W,
  PATCH_TRIPS = (PATCH_ITEMS + THREADS * AT_ONCE - 1) / (THREADS * AT_ONCE),
  LINES = PIXELS / SPLIT  // pixels that a thread finishes
};

// Position of a thread in the block.
struct Place {
  int x, y, filter, split;  // of its first pixel and channel, in the block
};

__device__ __forceinline__ Place place_of(int thread) {
  // Adjacent threads have adjacent channels, so that they write adjacent bytes.
  const int in_group = thread % GROUP, pixel = in_group / THREADS_C;
  const Place place = {pixel % TILE_X * PIXELS, pixel / TILE_X, in_group % THREADS_C * FILTERS, thread / GROUP};
  return place;
}

// VECTOR_BYTES channels of the pixel at (y, x) of the buffer, as they are loaded: words, or bytes of one word.
__device__ __forceinline__ void load_pixel(int (&loaded)[LOADS], const unsigned char* __restrict__ image, int y, int x,
                                           int channel) {
  const bool is_inside = !IN_CHECKED || ((unsigned)y < IN_H && (unsigned)x < IN_W);
  const unsigned char* from = image + (y * IN_ROW + x * IN_PIXEL + channel);
#pragma unroll
  for (int i = 0; i < LOADS; ++i) loaded[i] = IN_BYTES ? IN_FILL >> 8 * i & 255 : IN_FILL;
  if (!is_inside || (IN_PASSES * CHUNK * DEPTH > IN_PIXEL && channel >= IN_PIXEL)) return;
#if IN_BYTES
#pragma unroll
  for (int i = 0; i < LOADS; ++i) loaded[i] = channel + i < IN_PIXEL ? (int)load_activation(from + i) : 0;
#else
  load_words<VECTOR>(loaded, reinterpret_cast<const int*>(from));
#endif
}

// Word j of what was loaded.
__device__ __forceinline__ int word_of(const int (&loaded)[LOADS], int j) {
  return IN_BYTES ? pack_bytes(loaded[0], loaded[1], loaded[2], loaded[3]) : loaded[j];
}

// Four channels of a pixel to planes: unchanged, or as two pairs of int16.
__device__ __forceinline__ void store_planes(int* to, int word) {
#if DEPTH == 4
  *to = word;
#else
  to[0] = permute(word, IN_SIGNED ? 0x9180 : 0x4140);
  to[PLANE_WORDS] = permute(word, IN_SIGNED ? 0xB3A2 : 0x4342);
#endif
}

// Copies CHUNK planes of the block's input to shared memory [plane][row][column % STRIDE_X][column / STRIDE_X].
__device__ __forceinline__ void stage_patch(int* patch, const unsigned char* __restrict__ image, int y0, int x0,
                                            int pass) {
#pragma unroll 1
  for (int trip = 0; trip < PATCH_TRIPS; ++trip) {
    int loaded[AT_ONCE][LOADS], places[AT_ONCE];
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i) {
      const int item = (trip * AT_ONCE + i) * THREADS + (int)threadIdx.x;
      const int above = quotient<PATCH_W, PATCH_TRIPS * AT_ONCE * THREADS>(item), column = item - above * PATCH_W;
      const int vector = quotient<PATCH_H, PATCH_TRIPS * AT_ONCE * THREADS>(above), row = above - vector * PATCH_H;
      places[i] = vector * (VECTOR_BYTES / DEPTH) * PLANE_WORDS + row * ROW_WORDS + column % STRIDE_X * PHASE_WORDS +
                  column / STRIDE_X;
      if (item >= PATCH_ITEMS) places[i] = -1;
      if (item < PATCH_ITEMS)
        load_pixel(loaded[i], image, y0 + row, x0 + column, pass * CHUNK * DEPTH + vector * VECTOR_BYTES);
    }
#pragma unroll
    for (int i = 0; i < AT_ONCE; ++i)
      if (places[i] >= 0) {
#pragma unroll
        for (int j = 0; j < VECTOR; ++j)
          store_planes(patch + places[i] + j * (4 / DEPTH) * PLANE_WORDS, word_of(loaded[i], j));
      }
  }
}

// The first of COUNT int4 that a thread copies to shared memory, loaded early so that other loads take the same time.
template <int COUNT>
__device__ __forceinline__ void load_ahead(int4 (&ahead)[AHEAD], const int4* __restrict__ from) {
#pragma unroll
  for (int i = 0; i < AHEAD; ++i)
    if (i * THREADS < COUNT) ahead[i] = __ldg(from + min(i * THREADS + (int)threadIdx.x, COUNT - 1));
}

// Copies COUNT int4 from global to shared memory.
template <int COUNT>
__device__ __forceinline__ void stage_weights(int4* to, const int4* __restrict__ from, const int4 (&ahead)[AHEAD]) {
#pragma unroll
  for (int i = 0; i < AHEAD; ++i)
    if (i * THREADS + (int)threadIdx.x < COUNT) to[i * THREADS + threadIdx.x] = ahead[i];
#pragma unroll 1
  for (int i = AHEAD * THREADS + threadIdx.x; i < COUNT; i += THREADS) to[i] = __ldg(from + i);
}

// Reads N words from an address that is a multiple of PIXELS words.
template <int N>
__device__ __forceinline__ void load_span(int* words, const int* from) {
  enum { WIDE = PIXELS % 4 == 0 ? 4 : PIXELS % 2 == 0 ? 2 : 1, WIDE_WORDS = N / WIDE * WIDE };
#pragma unroll
  for (int i = 0; i < WIDE_WORDS; i += WIDE) load_words<WIDE>(words + i, from + i);
  enum { PAIRS = WIDE == 4 && N - WIDE_WORDS >= 2 ? 2 : 0 };
  if (PAIRS > 0) load_words<2>(words + WIDE_WORDS, from + WIDE_WORDS);
#pragma unroll
  for (int i = WIDE_WORDS + PAIRS; i < N; ++i) words[i] = from[i];
}

// Greatest j with a tap v = j * STRIDE_X + phase in V .. V + WIDTH - 1, or -1.
__device__ constexpr int last_of_phase(int v, int width, int phase) {
  return v + width - 1 < phase ? -1 : (v + width - 1 - phase) / STRIDE_X;
}

// Add the products of one plane and one kernel row, taps V .. V + WIDTH - 1 whose column is of PHASE and the next ones.
template <int V, int WIDTH, int PHASE, bool HALF>
__device__ __forceinline__ void add_taps(int (&sums)[PIXELS][WORDS], const int* row, const int* weights) {
  enum { LAST = last_of_phase(V, WIDTH, PHASE), LAST_TAP = LAST * STRIDE_X + PHASE };
  if ((int)LAST >= 0 && (int)LAST_TAP >= V) {
    int x[PIXELS + (LAST > 0 ? LAST : 0)];
    load_span<PIXELS + (LAST > 0 ? LAST : 0)>(x, row + PHASE * PHASE_WORDS);
#pragma unroll
    for (int j = 0; j <= LAST; ++j) {
      const int v = j * STRIDE_X + PHASE;
      if (v < V) continue;
      int w[WORDS];
      load_words<WORDS>(w, weights + (v - V) * BLOCK_WORDS);
#pragma unroll
      for (int p = 0; p < PIXELS; ++p)
#pragma unroll
        for (int k = 0; k < WORDS; ++k) {
#if DEPTH == 4
          sums[p][k] = dot4<IN_SIGNED>(x[p + j], w[k], sums[p][k]);
#else
          sums[p][k] = multiply_add_low(x[p + j], w[k], sums[p][k]);
          if (!HALF) sums[p][k] = multiply_add_high(x[p + j], w[k], sums[p][k]);
#endif
        }
    }
  }
  if (PHASE + 1 < STRIDE_X)
    add_taps<V, WIDTH, (PHASE + 1 < STRIDE_X ? PHASE + 1 : PHASE), HALF>(sums, row, weights);
}

#if FIELDS > 1
// The fields of packed sums (fields.py) to the sums of the filters.
__device__ __forceinline__ void add_fields(int (&sums)[PIXELS][FILTERS], const int (&packed)[PIXELS][WORDS]) {
#pragma unroll
  for (int p = 0; p < PIXELS; ++p)
#pragma unroll
    for (int k = 0; k < FILTERS; ++k) {
      const int shifted = packed[p][k / FIELDS] >> (k % FIELDS * FIELD_BITS);
      sums[p][k] += k % FIELDS == FIELDS - 1 ? shifted
                                             : (shifted & ((1 << FIELD_BITS) - 1)) - (1 << (FIELD_BITS - 1));
    }
}
#endif

// Add the products of taps [U, U + HEIGHT) x [V, V + WIDTH) and all staged planes of this thread's split.
template <int U, int HEIGHT, int V, int WIDTH>
__device__ __forceinline__ void accumulate(int (&sums)[PIXELS][FILTERS], const int* patch, const int* weights,
                                           const Place& place) {
  const int* row = patch + place.split * PLANE_WORDS + (place.y * STRIDE_Y + U) * ROW_WORDS + place.x;
  const int* tap = weights + place.split * (WIDTH * BLOCK_WORDS) + place.filter / FILTERS * WORDS;
#pragma unroll 1
  for (int u = 0; u < HEIGHT; ++u) {
#if UNROLL_PLANES
#pragma unroll
    for (int plane = 0; plane < CHUNK / SPLIT; ++plane) {
      if (plane * DEPTH >= IN_C) continue;  // padding up to a multiple of 4 channels
      if (DEPTH == 2 && plane * 2 + 1 >= IN_C)
        add_taps<V, WIDTH, 0, true>(sums, row + plane * PLANE_WORDS, tap + plane * (WIDTH * BLOCK_WORDS));
      else
        add_taps<V, WIDTH, 0, false>(sums, row + plane * PLANE_WORDS, tap + plane * (WIDTH * BLOCK_WORDS));
    }
#else
    const int *from = row, *with = tap;
#pragma unroll 1
    for (int plane = 0; plane < CHUNK / SPLIT; plane += TOGETHER) {
#if FIELDS > 1
      int packed[PIXELS][WORDS];
#pragma unroll
      for (int i = 0; i < PIXELS * WORDS; ++i) packed[i / WORDS][i % WORDS] = FIELDS_START;
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i)
        add_taps<V, WIDTH, 0, false>(packed, from + i * SPLIT * PLANE_WORDS, with + i * SPLIT * (WIDTH * BLOCK_WORDS));
      add_fields(sums, packed);
#else
      add_taps<V, WIDTH, 0, false>(sums, from, with);
#endif
      from += TOGETHER * SPLIT * PLANE_WORDS;
      with += TOGETHER * SPLIT * (WIDTH * BLOCK_WORDS);
    }
#endif
    row += ROW_WORDS;
    tap += CHUNK * WIDTH * BLOCK_WORDS;
  }
}

__device__ __forceinline__ void clear(int (&sums)[PIXELS][FILTERS]) {
#pragma unroll
  for (int p = 0; p < PIXELS; ++p)
#pragma unroll
    for (int k = 0; k < FILTERS; ++k) sums[p][k] = 0;
}

// Add the partial sums of the splits through shared memory; each thread gets the sums of LINES pixels of its group's
// PIXELS: pixel place.split * LINES + i in sums[i].
__device__ __forceinline__ void reduce(int (&sums)[PIXELS][FILTERS], int4* scratch, const Place& place) {
  const int in_group = (int)threadIdx.x % GROUP;
  __syncthreads();
  if (takes_part<THREADS>()) {
#pragma unroll
    for (int p = 0; p < PIXELS; ++p)
#pragma unroll
      for (int q = 0; q < FILTERS / 4; ++q)
        scratch[((p * (FILTERS / 4) + q) * SPLIT + place.split) * GROUP + in_group] =
            make_int4(sums[p][4 * q], sums[p][4 * q + 1], sums[p][4 * q + 2], sums[p][4 * q + 3]);
  }
  __syncthreads();
  if (!takes_part<THREADS>()) return;
#pragma unroll
  for (int p = 0; p < LINES; ++p)
#pragma unroll
    for (int q = 0; q < FILTERS / 4; ++q) {
      const int4* from = scratch + (((place.split * LINES + p) * (FILTERS / 4) + q) * SPLIT) * GROUP + in_group;
      unsigned total[4] = {0, 0, 0, 0};
#pragma unroll
      for (int s = 0; s < SPLIT; ++s) {
        const int4 part = from[s * GROUP];
        total[0] += (unsigned)part.x, total[1] += (unsigned)part.y;
        total[2] += (unsigned)part.z, total[3] += (unsigned)part.w;
      }
#pragma unroll
      for (int k = 0; k < 4; ++k) sums[p][4 * q + k] = (int)total[k];
    }
}

#include "direct/epilogue.cuh"

// The outputs of one block of the layer.
__device__ __forceinline__ void compute(const Block& block, int4* shared, const unsigned char* __restrict__ input,
                                        const int4* __restrict__ weights, const int4* __restrict__ channels,
                                        const unsigned char* __restrict__ table,
                                        unsigned char* __restrict__ output RESIDUAL_PARAMETER
#if BESIDE
                                        ,
                                        const int4* __restrict__ beside_weights,
                                        const int4* __restrict__ beside_channels,
                                        const unsigned char* __restrict__ beside_table,
                                        unsigned char* __restrict__ beside
#endif
) {
  int* patch = reinterpret_cast<int*>(shared);
  int4* staged = shared + CHUNK * PLANE_WORDS / 4;
  const Place place = place_of(threadIdx.x);
  const int y = (int)block.x / TILES_X * TILE_Y, x = (int)block.x % TILES_X * (TILE_X * PIXELS);
  const int first_filter = (int)block.y * BLOCK_FILTERS;
  const unsigned char* image = input + (unsigned long long)block.z * IN_IMAGE;
  enum { WEIGHTS = CHUNK * KERNEL_H * KERNEL_W * BLOCK_WORDS / 4, BESIDE_WEIGHTS = CHUNK * BLOCK_WORDS / 4 };

  int sums[PIXELS][FILTERS];
  clear(sums);
#pragma unroll 1
  for (int pass = 0; pass < IN_PASSES; ++pass) {
    if (pass > 0) __syncthreads();
    if (takes_part<THREADS>()) {
      const int4* from = weights + ((int)block.y * IN_PASSES + pass) * WEIGHTS;
      int4 ahead[AHEAD];
      load_ahead<WEIGHTS>(ahead, from);
      stage_patch(patch, image, y * STRIDE_Y + IN_Y, x * STRIDE_X + IN_X, pass);
      stage_weights<WEIGHTS>(staged, from, ahead);
    }
    __syncthreads();
    if (takes_part<THREADS>())
      accumulate<0, KERNEL_H, 0, KERNEL_W>(sums, patch, reinterpret_cast<const int*>(staged), place);
  }
  if (SPLIT > 1) reduce(sums, shared + SCRATCH_AT / 4, place);
  if (takes_part<THREADS>())
    finish<Main, Output, true>(sums, channels, table, output, RESIDUAL_POINTER, first_filter, y, x, place, block.z);

#if BESIDE
  clear(sums);
#pragma unroll 1
  for (int pass = 0; pass < IN_PASSES; ++pass) {
    __syncthreads();
    if (takes_part<THREADS>()) {
      const int4* from = beside_weights + ((int)block.y * IN_PASSES + pass) * BESIDE_WEIGHTS;
      int4 ahead[AHEAD];
      load_ahead<BESIDE_WEIGHTS>(ahead, from);
      if (IN_PASSES > 1) stage_patch(patch, image, y * STRIDE_Y + IN_Y, x * STRIDE_X + IN_X, pass);
      stage_weights<BESIDE_WEIGHTS>(staged, from, ahead);
    }
    __syncthreads();
    if (takes_part<THREADS>())
      accumulate<PAD_TOP, 1, PAD_LEFT, 1>(sums, patch, reinterpret_cast<const int*>(staged), place);
  }
  if (SPLIT > 1) reduce(sums, shared + SCRATCH_AT / 4, place);
  if (takes_part<THREADS>())
    finish<Beside, BesideOutput, false>(sums, beside_channels, beside_table, beside, nullptr, first_filter, y, x, place,
                                        block.z);
#endif
}

#ifndef NETWORK_THREADS
extern "C" __global__ void __launch_bounds__(THREADS, 1)
    direct(const unsigned char* __restrict__ input, const int4* __restrict__ weights, const int4* __restrict__ channels,
           const unsigned char* __restrict__ table, unsigned char* __restrict__ output RESIDUAL_PARAMETER
#if BESIDE
           ,
           const int4* __restrict__ beside_weights, const int4* __restrict__ beside_channels,
           const unsigned char* __restrict__ beside_table, unsigned char* __restrict__ beside
#endif
    ) {
  DYNAMIC_SHARED(int4, shared);
  compute(current_block(), shared, input, weights, channels, table, output RESIDUAL_ARGUMENT
#if BESIDE
          ,
          beside_weights, beside_channels, beside_table, beside
#endif
  );
}
#endif
