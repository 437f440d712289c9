// The network in float32: a convolution with batch norm (folded into weights and bias), residual
// addition, ReLU and optionally the 1x1 shortcut of the same input in one launch; mean + dense in another.
// README.md has tiles and layouts. Shapes are -D constants.

#ifdef CONVOLUTION

#define THREADS (LANES * (ROWS * COLUMNS / PIXELS))
#define TILE_ROWS ((ROWS - 1) * STRIDE_Y + KERNEL_Y)
#define TILE_COLUMNS ((COLUMNS - 1) * STRIDE_X + KERNEL_X)
#define PITCH (CHUNK + 4)  // floats from pixel to pixel: 4 more, so that adjacent pixels are in different banks
#define CHUNKS ((CHANNELS + CHUNK - 1) / CHUNK)
#define OUTPUT_GROUPS ((OUTPUTS + 3) / 4)
#define WEIGHT_GROUPS ((OUTPUT_GROUPS + LANES - 1) / LANES * LANES)

__device__ __forceinline__ void add_product(float4 &sum, float x, const float4 &w) {
  sum.x += x * w.x;
  sum.y += x * w.y;
  sum.z += x * w.z;
  sum.w += x * w.w;
}

// sums[p] += x[4 channels of pixel p] * w[4 channels, 4 outputs]; pixels lie `step` floats apart.
__device__ __forceinline__ void add_products(float4 (&sums)[PIXELS], const float *x, int step, const float4 *w) {
  const float4 w0 = w[0], w1 = w[WEIGHT_GROUPS], w2 = w[2 * WEIGHT_GROUPS], w3 = w[3 * WEIGHT_GROUPS];
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    const float4 four = *reinterpret_cast<const float4 *>(x + p * step);
    add_product(sums[p], four.x, w0);
    add_product(sums[p], four.y, w1);
    add_product(sums[p], four.z, w2);
    add_product(sums[p], four.w, w3);
  }
}

__device__ __forceinline__ float4 plus(const float4 &a, const float4 &b) {
  return make_float4(a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w);
}

__device__ __forceinline__ float4 rectified(const float4 &a) {
  return make_float4(max(a.x, 0.0f), max(a.y, 0.0f), max(a.z, 0.0f), max(a.w, 0.0f));
}

// Channels chunk * CHUNK .. of the input pixels under the block's tile; zeros outside of the image.
__device__ __forceinline__ void stage(float *tile, const float *image, int first_row, int first_column, int chunk) {
  const int thread = threadIdx.y * LANES + threadIdx.x;
#pragma unroll 1
  for (int i = thread; i < TILE_ROWS * TILE_COLUMNS * CHUNK; i += THREADS) {
    const int pixel = i / CHUNK, channel = chunk * CHUNK + i % CHUNK;
    const int row = first_row + pixel / TILE_COLUMNS, column = first_column + pixel % TILE_COLUMNS;
    const bool inside = row >= 0 && row < HEIGHT && column >= 0 && column < WIDTH && channel < CHANNELS;
    tile[pixel * PITCH + i % CHUNK] = inside ? image[(row * WIDTH + column) * INPUT_PITCH + channel] : 0.0f;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    float32_convolution(const float *__restrict__ input, const float4 *__restrict__ weights,
                        const float4 *__restrict__ bias,
#if RESIDUAL
                        const float4 *__restrict__ residual,
#endif
#if SHORTCUT
                        const float4 *__restrict__ shortcut_weights, const float4 *__restrict__ shortcut_bias,
                        float4 *__restrict__ shortcut_output,
#endif
                        float4 *__restrict__ output) {
  __shared__ float4 aligned_tile[TILE_ROWS * TILE_COLUMNS * PITCH / 4];
  float *tile = reinterpret_cast<float *>(aligned_tile);
  const int tiles_across = (OUTPUT_WIDTH + COLUMNS - 1) / COLUMNS;
  const int top = blockIdx.x / tiles_across * ROWS, left = blockIdx.x % tiles_across * COLUMNS;
  const int row = threadIdx.y / (COLUMNS / PIXELS), column = threadIdx.y % (COLUMNS / PIXELS) * PIXELS;
  const int group = blockIdx.y * LANES + threadIdx.x;  // of 4 output channels
  const float *image = input + blockIdx.z * (HEIGHT * WIDTH * INPUT_PITCH);
  const float *corner = tile + (row * STRIDE_Y * TILE_COLUMNS + column * STRIDE_X) * PITCH;

  float4 sums[PIXELS];
#if SHORTCUT
  float4 shortcut_sums[PIXELS];
#endif
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    sums[p] = bias[group];
#if SHORTCUT
    shortcut_sums[p] = shortcut_bias[group];
#endif
  }

#pragma unroll 1
  for (int chunk = 0; chunk < CHUNKS; ++chunk) {
    __syncthreads();
    stage(tile, image, top * STRIDE_Y - PADDING_TOP, left * STRIDE_X - PADDING_LEFT, chunk);
    __syncthreads();
#pragma unroll 1
    for (int tap = 0; tap < KERNEL_Y * KERNEL_X; ++tap) {
      const float *x = corner + (tap / KERNEL_X * TILE_COLUMNS + tap % KERNEL_X) * PITCH;
      const float4 *w = weights + (tap * CHUNKS + chunk) * CHUNK * WEIGHT_GROUPS + group;
#pragma unroll
      for (int c = 0; c < CHUNK; c += 4) add_products(sums, x + c, STRIDE_X * PITCH, w + c * WEIGHT_GROUPS);
    }
#if SHORTCUT
    const float *centre = corner + (PADDING_TOP * TILE_COLUMNS + PADDING_LEFT) * PITCH;
    const float4 *w = shortcut_weights + chunk * CHUNK * WEIGHT_GROUPS + group;
#pragma unroll
    for (int c = 0; c < CHUNK; c += 4) add_products(shortcut_sums, centre + c, STRIDE_X * PITCH, w + c * WEIGHT_GROUPS);
#endif
  }

  const int y = top + row;
#pragma unroll
  for (int p = 0; p < PIXELS; ++p) {
    const int x = left + column + p;
    if (y < OUTPUT_HEIGHT && x < OUTPUT_WIDTH && group < OUTPUT_GROUPS) {
      const unsigned place = ((blockIdx.z * OUTPUT_HEIGHT + y) * OUTPUT_WIDTH + x) * OUTPUT_GROUPS + group;
      float4 sum = sums[p];
#if RESIDUAL
      sum = plus(sum, residual[place]);
#endif
#if RELU
      sum = rectified(sum);
#endif
      output[place] = sum;
#if SHORTCUT
      shortcut_output[place] = shortcut_sums[p];
#endif
    }
  }
}

#else

// One block per image: the mean of every channel over PIXEL_COUNT pixels, then the labels' dot products with it.
extern "C" __global__ void __launch_bounds__(CHANNELS * SLICES)
    float32_head(const float *__restrict__ input, const float *__restrict__ weights, const float *__restrict__ bias,
                 float *__restrict__ output) {
  __shared__ float partial[SLICES * CHANNELS];
  __shared__ float mean[CHANNELS];
  const int channel = threadIdx.x, slice = threadIdx.y;
  const float *image = input + blockIdx.z * (PIXEL_COUNT * INPUT_PITCH);
  float sum = 0.0f;
#pragma unroll 1
  for (int pixel = slice; pixel < PIXEL_COUNT; pixel += SLICES) sum += image[pixel * INPUT_PITCH + channel];
  partial[slice * CHANNELS + channel] = sum;
  __syncthreads();
  if (slice == 0) {
    float total = 0.0f;
#pragma unroll
    for (int s = 0; s < SLICES; ++s) total += partial[s * CHANNELS + channel];
    mean[channel] = total / PIXEL_COUNT;
  }
  __syncthreads();
  for (int label = slice * CHANNELS + channel; label < LABELS; label += CHANNELS * SLICES) {
    float logit = bias[label];
#pragma unroll 1
    for (int c = 0; c < CHANNELS; ++c) logit += mean[c] * weights[c * LABELS + label];
    output[blockIdx.z * LABELS + label] = logit;
  }
}

#endif
