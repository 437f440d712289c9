// The paper's design in float32, its row "not quantized": Winograd F(2x2, 3x3) as in baselines/paper/winograd.cu, one
// block per 2x2 outputs of all filters with Algorithm 1, and the simple convolution as in map.cu, one block per map.
//
// Defines: HEIGHT, WIDTH, INPUT_CHANNELS, INPUT_PITCH, OUTPUT_HEIGHT, OUTPUT_WIDTH, OUTPUTS, OUTPUT_PITCH, PADDING_TOP,
// PADDING_LEFT, THREADS, RELU, RESIDUAL; with WINOGRAD 1: CHANNELS, FILTERS, LANES as in baselines/paper/tile.cuh; with
// WINOGRAD 0: KERNEL_Y, KERNEL_X, STRIDE_Y, STRIDE_X, SHORTCUT.
#include "include/device.cuh"

#if RESIDUAL
#define RESIDUAL_PARAMETER const float *__restrict__ residual,
#define ADDED(sum, place) ((sum) + residual[place])
#else
#define RESIDUAL_PARAMETER
#define ADDED(sum, place) (sum)
#endif

__device__ __forceinline__ float finished(float sum) { return RELU ? fmaxf(sum, 0.0f) : sum; }

__device__ __forceinline__ float pixel_at(const float *image, int row, int column, int channel) {
  const bool inside = row >= 0 && row < HEIGHT && column >= 0 && column < WIDTH && channel < INPUT_CHANNELS;
  return inside ? image[(row * WIDTH + column) * INPUT_PITCH + channel] : 0.0f;
}

#if WINOGRAD

#define RUN (CHANNELS > LANES ? CHANNELS / LANES : 1)

__device__ __forceinline__ void transform_line(float *line, int stride) {
  const float d0 = line[0], d1 = line[stride], d2 = line[2 * stride], d3 = line[3 * stride];
  line[0] = d0 - d2, line[stride] = d1 + d2, line[2 * stride] = d2 - d1, line[3 * stride] = d1 - d3;
}

__device__ __forceinline__ void untransform_line(float *line, int stride) {
  const float m0 = line[0], m1 = line[stride], m2 = line[2 * stride], m3 = line[3 * stride];
  line[0] = m0 + m1 + m2, line[stride] = m1 - m2 - m3;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    float32_winograd(const float *__restrict__ input, const float *__restrict__ weights,
                     const float *__restrict__ bias, RESIDUAL_PARAMETER float *__restrict__ output) {
  __shared__ float patch[16 * CHANNELS];
  __shared__ float transformed[16 * CHANNELS];
  __shared__ float sums[16 * FILTERS];
  const int tiles_across = (OUTPUT_WIDTH + 1) / 2;
  const int top = (int)blockIdx.x / tiles_across * 2, left = (int)blockIdx.x % tiles_across * 2;
  const float *image = input + blockIdx.z * (HEIGHT * WIDTH * INPUT_PITCH);
#pragma unroll
  for (int step = 0; step < (16 * CHANNELS + THREADS - 1) / THREADS; ++step) {
    const int i = step * THREADS + (int)threadIdx.x;
    if (i < 16 * CHANNELS) {
      const int position = i / CHANNELS, row = top + position / 4 - PADDING_TOP;
      patch[i] = pixel_at(image, row, left + position % 4 - PADDING_LEFT, i % CHANNELS);
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int channel = threadIdx.x; channel < CHANNELS; channel += THREADS) {
    float d[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) d[i] = patch[i * CHANNELS + channel];
#pragma unroll
    for (int i = 0; i < 4; ++i) transform_line(d + i, 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) transform_line(d + 4 * i, 1);
#pragma unroll
    for (int i = 0; i < 16; ++i) transformed[i * CHANNELS + channel] = d[i];
  }
  __syncthreads();
#pragma unroll 1
  for (int item = threadIdx.x; item < 16 * FILTERS; item += THREADS) {
    const int group = item / LANES, lane = item % LANES;
    const float *x = transformed + item / FILTERS * CHANNELS, *w = weights + group * LANES * CHANNELS + lane;
    float own[RUN];
#pragma unroll
    for (int run = 0; run < RUN; ++run) own[run] = x[CHANNELS > LANES ? run * LANES + lane : lane % CHANNELS];
#pragma unroll
    for (int shift = 0; shift < CHANNELS / RUN; ++shift) {
      const int place = group * LANES + (lane + shift) % LANES;
      float sum = shift == 0 ? 0.0f : sums[place];
#pragma unroll
      for (int run = 0; run < RUN; ++run) sum += own[run] * w[(shift * RUN + run) * LANES];
      sums[place] = sum;
      __syncwarp();
    }
  }
  __syncthreads();
#pragma unroll 1
  for (int filter = threadIdx.x; filter < OUTPUTS; filter += THREADS) {
    float m[16];
#pragma unroll
    for (int i = 0; i < 16; ++i) m[i] = sums[i * FILTERS + filter];
#pragma unroll
    for (int i = 0; i < 4; ++i) untransform_line(m + i, 4);
    untransform_line(m, 1);
    untransform_line(m + 4, 1);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int y = top + i / 2, x = left + i % 2;
      if (y < OUTPUT_HEIGHT && x < OUTPUT_WIDTH) {
        const unsigned place = ((blockIdx.z * OUTPUT_HEIGHT + y) * OUTPUT_WIDTH + x) * OUTPUT_PITCH + filter;
        output[place] = finished(ADDED(m[i / 2 * 4 + i % 2] + bias[filter], place));
      }
    }
  }
}

#else

template <int ROWS, int COLUMNS>
__device__ __forceinline__ float convolve(const float *image, const float *__restrict__ weights, int top, int left,
                                          float *filter) {
  const int size = ROWS * COLUMNS * INPUT_CHANNELS;
#pragma unroll
  for (int step = 0; step < (size + THREADS - 1) / THREADS; ++step) {
    const int i = step * THREADS + (int)threadIdx.x;
    if (i < size) filter[i] = weights[i];
  }
  __syncthreads();
  float sum = 0.0f;
#pragma unroll
  for (int tap = 0; tap < ROWS * COLUMNS; ++tap)
#pragma unroll
    for (int c = 0; c < INPUT_CHANNELS; ++c)
      sum += pixel_at(image, top + tap / COLUMNS, left + tap % COLUMNS, c) * filter[tap * INPUT_CHANNELS + c];
  return sum;
}

extern "C" __global__ void __launch_bounds__(THREADS)
    float32_map(const float *__restrict__ input, const float *__restrict__ weights, const float *__restrict__ bias,
                RESIDUAL_PARAMETER
#if SHORTCUT
                const float *__restrict__ shortcut_weights, const float *__restrict__ shortcut_bias,
                float *__restrict__ shortcut_output,
#endif
                float *__restrict__ output) {
  __shared__ float filter[KERNEL_Y * KERNEL_X * INPUT_CHANNELS];
  const int map = (int)blockIdx.x, pixels = OUTPUT_HEIGHT * OUTPUT_WIDTH;
  const int pixel = (int)(blockIdx.y * THREADS + threadIdx.x), last = min(pixel, pixels - 1);
  const int y = last / OUTPUT_WIDTH, x = last % OUTPUT_WIDTH;
  const float *image = input + blockIdx.z * (HEIGHT * WIDTH * INPUT_PITCH);
  const unsigned start = (blockIdx.z * pixels + last) * OUTPUT_PITCH;
#if SHORTCUT
  if (map >= OUTPUTS) {
    const int own = map - OUTPUTS;
    const float *w = shortcut_weights + own * INPUT_CHANNELS;
    const float sum = convolve<1, 1>(image, w, y * STRIDE_Y, x * STRIDE_X, filter);
    if (pixel < pixels) shortcut_output[start + own] = sum + shortcut_bias[own];
    return;
  }
#endif
  const float *w = weights + map * KERNEL_Y * KERNEL_X * INPUT_CHANNELS;
  const int top = y * STRIDE_Y - PADDING_TOP, left = x * STRIDE_X - PADDING_LEFT;
  const float sum = convolve<KERNEL_Y, KERNEL_X>(image, w, top, left, filter);
  if (pixel < pixels) output[start + map] = finished(ADDED(sum + bias[map], start + map));
}

#endif
