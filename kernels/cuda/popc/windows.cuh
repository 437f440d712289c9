// The windows of a block as bit planes in shared memory.
// Included once for every layer of a kernel.

// RUN words of bytes from number `four` of a window on, whose pixel (0, 0) is (y, x) of the buffer. Their integers
// begin at 0, modulo 2**BITS; bytes that are no inputs are 0.
__device__ __forceinline__ void load_run(unsigned* to, const unsigned char* __restrict__ image, int y, int x,
                                         int four) {
  // A row of a window is contiguous in memory.
  const int below = quotient<ROW_FOURS, STAGED_FOURS>(four), in_row = four - below * ROW_FOURS;
  const int within = in_row % PIXEL_FOURS, row = y + below, column = x + in_row / PIXEL_FOURS;
  const unsigned char* from = image + (y * IN_ROW + x * IN_PIXEL + below * IN_ROW);
  from += IN_PIXEL == 4 * PIXEL_FOURS ? in_row * 4 : (column - x) * IN_PIXEL + within * 4;
  const bool is_inside = !IN_CHECKED || ((unsigned)row < IN_H && (unsigned)column < IN_W);
  int loaded[RUN];
#pragma unroll
  for (int i = 0; i < RUN; ++i) loaded[i] = IN_FILL;
#if IN_BYTES
  if (is_inside && four < FOURS) {
    int bytes[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) bytes[i] = within * 4 + i < IN_C ? (int)load_activation(from + i) : 0;
    loaded[0] = pack_bytes(bytes[0], bytes[1], bytes[2], bytes[3]);
  }
#else
  if (is_inside && four < FOURS) load_words<RUN>(loaded, reinterpret_cast<const int*>(from));
#endif
#pragma unroll
  for (int i = 0; i < RUN; ++i) {
    loaded[i] ^= (int)(IN_SIGNED ? 0x01010101u << (BITS - 1) : 0u);
    if (IN_C % 4 != 0 && within + i == PIXEL_FOURS - 1) loaded[i] &= (1 << IN_C % 4 * 8) - 1;
    to[i] = four < FOURS ? (unsigned)loaded[i] : 0;
  }
}

// Bit j of the 32 bytes of a word's fours: bit 8 i + g has byte i of number g.
template <int J>
__device__ __forceinline__ unsigned plane_of(const unsigned (&fours)[8]) {
  unsigned plane = 0;
#pragma unroll
  for (int g = 0; g < 8; ++g) {
    const unsigned moved = g < J ? fours[g] >> (g < J ? J - g : 0) : fours[g] << (g < J ? 0 : g - J);
    plane |= moved & 0x01010101u << g;
  }
  return plane;
}

// Store planes J .. BITS - 1; returns the sum of the 32 integers of which they are.
template <int J>
__device__ __forceinline__ int store_planes(int* to, const unsigned (&fours)[8]) {
  const unsigned plane = plane_of<J>(fours);
  to[J * BLOCK_PIXELS] = (int)plane;
  const int others = J + 1 < BITS ? store_planes<(J + 1 < BITS ? J + 1 : J)>(to, fours) : 0;
  return others + (TOTALS ? __popc(plane) << J : 0);
}

// The windows of the block's pixels as planes [word][bit][pixel], and the sums of their words [word][pixel].
__device__ __forceinline__ void stage_windows(int* windows, int* totals, const unsigned char* __restrict__ image,
                                              int first_pixel, int pass) {
  const int pixel = (int)threadIdx.x % BLOCK_PIXELS, first_word = (int)threadIdx.x / BLOCK_PIXELS;
  const int output = min(first_pixel + pixel, OUT_H * OUT_W - 1);  // pixels beyond the image are not written
  const int row = output / OUT_W, y = row * STRIDE_Y + IN_Y, x = (output - row * OUT_W) * STRIDE_X + IN_X;
#pragma unroll 1
  for (int trip = 0; trip < WINDOW_TRIPS; ++trip) {
    unsigned fours[AT_ONCE][8];
    const int word = trip * (AT_ONCE * TRIP_WORDS) + first_word;
#pragma unroll
    for (int n = 0; n < AT_ONCE; ++n)
#pragma unroll
      for (int i = 0; i < 8; i += RUN)
        load_run(fours[n] + i, image, y, x, (pass * CHUNK + word + n * TRIP_WORDS) * 8 + i);
#pragma unroll
    for (int n = 0; n < AT_ONCE; ++n) {
      const int at = word + n * TRIP_WORDS;
      if (at < CHUNK) {
        const int sum = store_planes<0>(windows + at * (BITS * BLOCK_PIXELS) + pixel, fours[n]);
        if (TOTALS) totals[at * BLOCK_PIXELS + pixel] = sum;
      }
    }
  }
}
