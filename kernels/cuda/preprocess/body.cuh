// One row of an input image from a camera frame, by the threads of a block (README.md): crop, exact area resize,
// colour, fill, table. Equal to model/preprocess.py.
//
// Defines: THREADS of a block; HEIGHT, WIDTH, CHANNELS of the input; PIXELS of a row that a block makes; COLOURS: 4
// bits for each channel, 0 to 4 for blue, green, red, gray, alpha.
#pragma once
#include "include/device.cuh"

namespace preprocessing {

enum {
  BLUE, GREEN, RED, GRAY, ALPHA,
  SEGMENT = 1536,    // bytes of a frame's row whose sums are in shared memory together, three or one for each pixel
  FILL = 256,        // column of the table
  SHIFTED = 0x4B400000,  // bits of 1.5 * 2**23, which added to a small float leaves an integer in the low bits
  TABLE_ROW = 260,
  OUTPUTS = 3 * PIXELS,
#ifdef NETWORK_THREADS
  STEP = NETWORK_THREADS,  // threads that share the work
#else
  STEP = THREADS,
#endif
  OUTPUTS_OF_THREAD = (OUTPUTS + STEP - 1) / STEP
};

// What geometry.py says of an image. offset: of the crop's first byte in the frames. rows, columns: the first spans.
// row_length, column_length: units in a pixel of the frame, on each axis. area: units in a pixel of the image.
struct Geometry {
  int offset, pitch, channels, is_wide;
  int rows, columns, row_length, column_length;
  int top, left, height, width;
  int area, area_high, inverse, unused;
};

// The pixels of the frame under one row or column of the image. first, last: what the weight of the first and the last
// one is more than the axis's length, modulo 2**32.
struct Span {
  int start, count, first, last;
};

struct Scratch {
  int4 sums[SEGMENT / 4 + 2];
  int rounded[OUTPUTS];
};

__device__ __forceinline__ Geometry load_geometry(const int4* __restrict__ geometries, int image) {
  const int4 a = __ldg(geometries + 4 * image), b = __ldg(geometries + 4 * image + 1);
  const int4 c = __ldg(geometries + 4 * image + 2), d = __ldg(geometries + 4 * image + 3);
  return {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w, c.x, c.y, c.z, c.w, d.x, d.y, d.z, d.w};
}

__device__ __forceinline__ Span load_span(const int4* __restrict__ spans, int index) {
  const int4 loaded = __ldg(spans + index);
  return {loaded.x, loaded.y, loaded.z, loaded.w};
}

// Add factor times each byte of a word to four sums; all wrap, the result does not: it is at most 255 times the units
// in a row of the image.
__device__ __forceinline__ void add_bytes(unsigned word, unsigned factor, unsigned (&sums)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) sums[i] += (word >> 8 * i & 255) * factor;
}

__device__ __forceinline__ unsigned load_word(const unsigned char* __restrict__ from) {
  return (unsigned)__ldg(reinterpret_cast<const int*>(from));
}

// Weighted sums of four columns of bytes over the rows of a span, of which TOGETHER are loaded at the same time.
template <int TOGETHER>
__device__ __forceinline__ int4 sum_rows(const unsigned char* __restrict__ from, int pitch, const Span& span,
                                         unsigned length) {
  const unsigned first = load_word(from), last = load_word(from + (unsigned)(span.count - 1) * (unsigned)pitch);
  unsigned sums[4] = {0, 0, 0, 0};
  int row = 0;
#pragma unroll 1
  while (row < span.count) {
    // 256 bytes fit into 16 bits.
    const int end = min(row + 256, span.count);
    unsigned even = 0, odd = 0;
#pragma unroll 1
    for (; row < end; row += TOGETHER) {
      unsigned words[TOGETHER];
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i) {
        words[i] = row + i < end ? load_word(from) : 0;
        from += pitch;
      }
#pragma unroll
      for (int i = 0; i < TOGETHER; ++i) even += words[i] & 0x00FF00FF, odd += words[i] >> 8 & 0x00FF00FF;
    }
    sums[0] += (even & 0xFFFF) * length, sums[1] += (odd & 0xFFFF) * length;
    sums[2] += (even >> 16) * length, sums[3] += (odd >> 16) * length;
  }
  add_bytes(first, (unsigned)span.first, sums);
  add_bytes(last, (unsigned)span.last, sums);
  return make_int4((int)sums[0], (int)sums[1], (int)sums[2], (int)sums[3]);
}

__device__ __forceinline__ int4 sum_rows(const unsigned char* __restrict__ from, int pitch, const Span& span,
                                         unsigned length) {
  return span.count > 4 ? sum_rows<8>(from, pitch, span, length) : sum_rows<4>(from, pitch, span, length);
}

// The units of a pixel under one output pixel in columns lo .. hi - 1 of the frame, modulo the size of Total.
template <class Total>
__device__ __forceinline__ Total sum_columns(const int* sums, int stride, const Span& span, int lo, int hi,
                                             int length) {
  Total total = 0;
  unsigned first = 0, last = 0;
#pragma unroll 4
  for (int at = lo; at < hi; ++at) {
    last = (unsigned)*sums;
    if (at == span.start) first = last;
    total += last;
    sums += stride;
  }
  if (hi != span.start + span.count) last = 0;
  return total * (Total)length + (Total)first * (Total)(long long)span.first +
         (Total)last * (Total)(long long)span.last;
}

// floor((2 total + area) / (2 area)), at most 255. The float quotient is less than 256 * 2**-22 off, so its integer is
// at most one off, and the remainder says so. All fits 32 bits, as 511 * area does.
__device__ __forceinline__ int rounded(unsigned total, const Geometry& geometry) {
  const unsigned numerator = 2 * total + (unsigned)geometry.area;
  const int divisor = 2 * geometry.area;
  const float shifted = add_down((float)numerator * __int_as_float(geometry.inverse), __int_as_float(SHIFTED));
  const int quotient = __float_as_int(shifted) - SHIFTED;
  const int rest = (int)(numerator - (unsigned)quotient * (unsigned)divisor);
  return quotient + (rest >= divisor) - (rest < 0);
}

// The same by subtraction, bit by bit: for areas of up to 48 bits, so that all fits 63.
__device__ __forceinline__ int rounded(unsigned long long total, const Geometry& geometry) {
  const unsigned long long area =
      (unsigned long long)(unsigned)geometry.area_high << 32 | (unsigned)geometry.area;
  unsigned long long rest = 2 * total + area;
  int quotient = 0;
#pragma unroll 1
  for (int bit = 7; bit >= 0; --bit) {
    const unsigned long long less = rest - (area << (bit + 1));
    if ((int)(less >> 32) >= 0) rest = less, quotient |= 1 << bit;
  }
  return quotient;
}

// Fill scratch.rounded with the frame's channels of the image's columns begin .. end - 1 of the content's row y.
template <class Total>
__device__ __forceinline__ void resize_row(const unsigned char* __restrict__ frames, const int4* __restrict__ spans,
                                           const Geometry& geometry, int y, int begin, int end, Scratch& scratch) {
  const int channels = geometry.channels, items = (end - begin) * channels;
  const Span rows = load_span(spans, geometry.rows + y);
  const Span left = load_span(spans, geometry.columns + begin), right = load_span(spans, geometry.columns + end - 1);
  const unsigned place = (unsigned)geometry.offset + (unsigned)rows.start * (unsigned)geometry.pitch;
  const int stop = right.start + right.count, step = channels == 3 ? SEGMENT / 3 : SEGMENT;
  Total totals[OUTPUTS_OF_THREAD];
#pragma unroll
  for (int k = 0; k < OUTPUTS_OF_THREAD; ++k) totals[k] = 0;
#pragma unroll 1
  for (int from = left.start; from < stop; from += step) {
    const int until = min(from + step, stop);
    const unsigned at = place + (unsigned)(from * channels);
    const int lead = (int)(at & 3), words = (lead + (until - from) * channels + 3) >> 2;
    __syncthreads();  // the sums of the segment before have been read
#pragma unroll 1
    for (int word = (int)threadIdx.x; word < words; word += STEP)
      scratch.sums[word] = sum_rows(frames + (at - (unsigned)lead) + 4 * word, geometry.pitch, rows,
                                    (unsigned)geometry.row_length);
    __syncthreads();
#pragma unroll
    for (int k = 0; k < OUTPUTS_OF_THREAD; ++k) {
      const int item = (int)threadIdx.x + k * STEP;
      if (item >= items) continue;
      const int pixel = channels == 3 ? item / 3 : item, channel = item - pixel * channels;
      const Span span = load_span(spans, geometry.columns + begin + pixel);
      const int lo = max(span.start, from), hi = min(span.start + span.count, until);
      const int* sums = reinterpret_cast<const int*>(scratch.sums) + lead + (lo - from) * channels + channel;
      if (lo < hi) totals[k] += sum_columns<Total>(sums, channels, span, lo, hi, geometry.column_length);
    }
  }
#pragma unroll
  for (int k = 0; k < OUTPUTS_OF_THREAD; ++k) {
    const int item = (int)threadIdx.x + k * STEP;
    if (item < items) scratch.rounded[item] = rounded(totals[k], geometry);
  }
}

// A channel of the image from a pixel of the frame, blue, green and red or gray.
__device__ __forceinline__ int in_colour(const int* pixel, int frame_channels, int colour) {
  if (colour == ALPHA) return 255;
  if (frame_channels == 1) return pixel[0];
  if (colour == GRAY) return (1868 * pixel[0] + 9617 * pixel[1] + 4899 * pixel[2] + (1 << 13)) >> 14;
  return pixel[colour];
}

// Columns chunk * PIXELS .. of a row of an image [HEIGHT, WIDTH, CHANNELS] at `output`. Called by all threads of a
// block, which may have written `scratch` before only if they have met at a barrier since.
__device__ __forceinline__ void preprocess(const unsigned char* __restrict__ frames,
                                           const int4* __restrict__ geometries, const int4* __restrict__ spans,
                                           const unsigned char* __restrict__ table, unsigned char* __restrict__ output,
                                           int image, int row, int chunk, Scratch& scratch) {
  const Geometry geometry = load_geometry(geometries, image);
  const int first = chunk * PIXELS, last = min(first + PIXELS, WIDTH), y = row - geometry.top;
  const int begin = max(first - geometry.left, 0);
  const int end = y >= 0 && y < geometry.height ? min(last - geometry.left, geometry.width) : 0;
  if (begin < end) {
    if (geometry.is_wide)
      resize_row<unsigned long long>(frames, spans, geometry, y, begin, end, scratch);
    else
      resize_row<unsigned>(frames, spans, geometry, y, begin, end, scratch);
  }
  __syncthreads();
  unsigned char* to = output + (row * WIDTH + first) * CHANNELS;
#pragma unroll 1
  for (int item = (int)threadIdx.x; item < (last - first) * CHANNELS; item += STEP) {
    const int column = item / CHANNELS, channel = item % CHANNELS, x = first + column - geometry.left;
    int value = FILL;
    if (x >= begin && x < end)
      value = in_colour(scratch.rounded + (x - begin) * geometry.channels, geometry.channels,
                        COLOURS >> 4 * channel & 15);
    to[item] = __ldg(table + channel * TABLE_ROW + value);
  }
}

}  // namespace preprocessing
