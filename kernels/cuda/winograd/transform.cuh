// Step 1 of the Winograd convolution: patches of the input to transformed pairs of channels in shared memory.
// Included once for every layer of a kernel.

// Number in the block of a thread's i-th tile, and position of tile t of the block in shared memory: four tiles that
// are adjacent in memory belong to one thread, and adjacent threads have adjacent tiles.
__device__ __forceinline__ int column(int tile) {
  const int i = tile / SIDE_TILES, side = tile % SIDE_TILES;
  return i / 4 * (4 * SIDE_TILES) + side * 4 + i % 4;
}

// B^T d B of one tile for PATCH_PAIRS pairs of the four channels whose bytes are at `patch`, from pair `first` on.
__device__ __forceinline__ void transform_patch(const unsigned char* __restrict__ patch, int first, int* transformed) {
  unsigned bytes[EDGE][EDGE];
#pragma unroll
  for (int y = 0; y < EDGE; ++y)
#pragma unroll
    for (int x = 0; x < EDGE; ++x) {
      const auto* pixel = reinterpret_cast<const unsigned*>(patch + y * Input::row + x * Input::pixel);
      const unsigned word = load_activation(pixel);
      bytes[y][x] = Input::is_signed ? word ^ 0x80808080u : word;
    }
#pragma unroll
  for (int pair = 0; pair < PATCH_PAIRS; ++pair) {
    const int selector = 0x4140 + 0x0202 * (first + pair);  // two bytes, a zero byte above each
    unsigned d[EDGE][EDGE];
#pragma unroll
    for (int x = 0; x < EDGE; ++x) {
      unsigned line[EDGE];
#pragma unroll
      for (int y = 0; y < EDGE; ++y) line[y] = (unsigned)permute((int)bytes[y][x], selector);
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
        transformed[pair * CHUNK_QUADS * PAIR_WORDS + (y * EDGE + x) * BLOCK_TILES] = (int)(d[y][x] ^ 0x8000u);
    }
  }
}

__device__ __forceinline__ void transform_input(const Block& block, const unsigned char* __restrict__ image,
                                                int* transformed) {
  constexpr int PATCHES = BLOCK_TILES * CHUNK_QUADS, ITEMS = PATCHES * 2 / PATCH_PAIRS;
#pragma unroll 1
  for (int item = threadIdx.x; item < ITEMS; item += block_threads<THREADS>()) {
    // Adjacent threads have the same pair, as both pairs of a patch lie in the same banks.
    const int first = PATCH_PAIRS == 2 ? 0 : quotient<PATCHES, ITEMS>(item), patch = item - first * PATCHES;
    const int in_block = quotient<CHUNK_QUADS, PATCHES>(patch), quad = remainder<CHUNK_QUADS, PATCHES>(patch);
    const int tile = min(tile_of(block, in_block), TILES - 1);
    const int y = quotient<TILES_ACROSS, TILES>(tile) * (TILE * STRIDE) - PAD_TOP;
    const int x = remainder<TILES_ACROSS, TILES>(tile) * (TILE * STRIDE) - PAD_LEFT;
    transform_patch(image + offset_of<Input>(y, x, quad * 4), first,
                    transformed + (first * CHUNK_QUADS + quad) * PAIR_WORDS + column(in_block));
  }
}
