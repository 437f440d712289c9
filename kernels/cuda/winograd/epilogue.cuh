// Step 3 of the Winograd convolution: sums of products in shared memory to outputs.
// Included once for every layer of a kernel.

#if VECTOR == 4
typedef unsigned Bytes;
__device__ __forceinline__ Bytes packed(const int (&y)[4]) { return (Bytes)pack_bytes(y[0], y[1], y[2], y[3]); }
#elif VECTOR == 2
typedef unsigned short Bytes;
__device__ __forceinline__ Bytes packed(const int (&y)[2]) { return (Bytes)__byte_perm(y[0], y[1], 0x0040); }
#else
typedef unsigned char Bytes;
__device__ __forceinline__ Bytes packed(const int (&y)[1]) { return (Bytes)y[0]; }
#endif

// Adds the constant of each channel and multiplies out A^T M A, down the columns of M: left[v][y] is row y of A^T M.
__device__ __forceinline__ void load_columns(const int* sums, const int* constants,
                                             unsigned (&left)[VECTOR][TILE][EDGE]) {
#pragma unroll
  for (int x = 0; x < EDGE; ++x) {
    int m[EDGE][VECTOR];
#pragma unroll
    for (int y = 0; y < EDGE; ++y) load_words<VECTOR>(m[y], sums + (y * EDGE + x) * PRODUCT_WORDS);
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

// One output: Y = 2**SHIFT * z modulo 2**32, z = ODD * y, which is divided by ODD unless the requantization accepts it
// (ODD_INVERSE 1). The constant has changed z to z + 2**(31 - SHIFT), which is not negative; channel.start compensates
// that.
__device__ __forceinline__ int output_of(unsigned y, const Channel& channel, const unsigned char* __restrict__ table) {
  return requantize<Main>((int)((y * ODD_INVERSE >> SHIFT) + (unsigned)channel.start), channel, table);
}

// Position of a vector of outputs: first row and column of the tile, first channel.
struct Place {
  int tile, channel;  // in the block
  int top, left, first;
  bool is_inside;
};

template <class T>
__device__ __forceinline__ Place place_of(const Block& block, int item) {
  constexpr int ACROSS = BLOCK_OUTPUTS / VECTOR, ITEMS = BLOCK_TILES * ACROSS, LIMIT = TILES + BLOCK_TILES;
  const int in_block = quotient<ACROSS, ITEMS>(item), channel = remainder<ACROSS, ITEMS>(item) * VECTOR;
  const int tile = tile_of(block, in_block), first = block.y * BLOCK_OUTPUTS + channel;
  const int row = quotient<TILES_ACROSS, LIMIT>(tile), across = remainder<TILES_ACROSS, LIMIT>(tile);
  return {in_block, channel, row * TILE, across * TILE, first, tile < TILES && first < T::channels};
}

// channels: [half][channel of the vector][vector], so that adjacent threads read adjacent int4.
template <class R>
__device__ __forceinline__ void load_channels(Channel (&loaded)[VECTOR], const int4* __restrict__ channels, int first) {
  channels += first / VECTOR;
#pragma unroll
  for (int v = 0; v < VECTOR; ++v)
    loaded[v] = channel_at<R>(channels + v * VECTORS, channels + (VECTOR + v) * VECTORS);
}

#ifdef ADD_OWN
__device__ __forceinline__ unsigned residual_of(const unsigned char* __restrict__ residual, int y, int x) {
  return *reinterpret_cast<const Bytes*>(residual + y * Residual::row + x * Residual::pixel);
}

// Row y of a tile of the residual, as far as it is inside.
__device__ __forceinline__ void load_residual(unsigned (&row)[TILE], const unsigned char* __restrict__ residual,
                                              const Place& place, int y) {
#pragma unroll
  for (int x = 0; x < TILE; ++x)
    if (place.top + y < OUTPUT_HEIGHT && place.left + x < OUTPUT_WIDTH)
      row[x] = residual_of(residual, y, x);
}
#endif

__device__ __forceinline__ void finish(const Block& block, const int* sums, int item,
                                       const int* __restrict__ constants,
                                       const int4* __restrict__ channels, const unsigned char* __restrict__ table,
                                       const unsigned char* __restrict__ residual,
                                       unsigned char* __restrict__ output) {
  const Place place = place_of<Output>(block, item);
  if (!place.is_inside) return;
#ifdef ADD_OWN
  // Read a row ahead: a load would wait for the stores before it, and the sums for the load.
  residual = image_of<Residual>(residual, block.z) + offset_of<Residual>(place.top, place.left, place.first);
  unsigned ahead[TILE];
  load_residual(ahead, residual, place, 0);
#endif
  int constant[VECTOR];
  load_words<VECTOR>(constant, constants + place.first);
  unsigned left[VECTOR][TILE][EDGE];
  load_columns(sums + place.tile * BLOCK_OUTPUTS + place.channel, constant, left);
  Channel channel[VECTOR];
  load_channels<Main>(channel, channels, place.first);
  output = image_of<Output>(output, block.z) + offset_of<Output>(place.top, place.left, place.first);
#pragma unroll
  for (int y = 0; y < TILE; ++y) {
    if (place.top + y >= OUTPUT_HEIGHT) break;
#ifdef ADD_OWN
    unsigned others[TILE];
#pragma unroll
    for (int x = 0; x < TILE; ++x) others[x] = ahead[x];
    if (y + 1 < TILE) load_residual(ahead, residual, place, y + 1);
#endif
#pragma unroll
    for (int v = 0; v < VECTOR; ++v) inverse_line(left[v][y]);
#pragma unroll
    for (int x = 0; x < TILE; ++x) {
      if (place.left + x >= OUTPUT_WIDTH) break;
      int bytes[VECTOR];
#pragma unroll
      for (int v = 0; v < VECTOR; ++v)
        bytes[v] = output_of(left[v][y][x], channel[v], table + (place.first + v) * 256);
#ifdef ADD_OWN
#pragma unroll
      for (int v = 0; v < VECTOR; ++v) {
        const unsigned byte = others[x] >> 8 * v & 255;
        bytes[v] = add_residual(bytes[v], Residual::is_signed ? (int)(signed char)byte : (int)byte);
      }
#endif
      *reinterpret_cast<Bytes*>(output + y * Output::row + x * Output::pixel) = packed(bytes);
    }
  }
}

#if BESIDE
__device__ __forceinline__ void finish_beside(const Block& block, const int* sums, int item,
                                              const int4* __restrict__ channels,
                                              const unsigned char* __restrict__ table,
                                              unsigned char* __restrict__ output) {
  const Place place = place_of<BesideOutput>(block, item);
  if (!place.is_inside) return;
  Channel channel[VECTOR];
  load_channels<Beside>(channel, channels, place.first);
  sums += POSITIONS * PRODUCT_WORDS + place.tile * BLOCK_OUTPUTS + place.channel;
  output = image_of<BesideOutput>(output, block.z) + offset_of<BesideOutput>(place.top, place.left, place.first);
#pragma unroll
  for (int y = 0; y < TILE; ++y) {
    if (place.top + y >= OUTPUT_HEIGHT) break;
#pragma unroll
    for (int x = 0; x < TILE; ++x) {
      if (place.left + x >= OUTPUT_WIDTH) break;
      int values[VECTOR];
      load_words<VECTOR>(values, sums + (y * TILE + x) * PRODUCT_WORDS);
#pragma unroll
      for (int v = 0; v < VECTOR; ++v)
        values[v] = requantize<Beside>(values[v] + channel[v].start, channel[v],
                                       table + (place.first + v) * 256);
      *reinterpret_cast<Bytes*>(output + y * BesideOutput::row + x * BesideOutput::pixel) = packed(values);
    }
  }
}
#endif
