// Initial values of a thread's sums, and the conversion of the sums to outputs.
// Included once for every layer of a kernel.

template <class R>
__device__ __forceinline__ void start_sums(int (&sums)[PIXELS][FILTERS], const int4* __restrict__ channels,
                                           int first_filter, const Place& place) {
#pragma unroll
  for (int k = 0; k < FILTERS; ++k) {
    int start = load_channel<R>(channels, first_filter + place.filter + k).start;
    if (SPLIT > 1 && place.split > 0) start = 0;
#pragma unroll
    for (int p = 0; p < PIXELS; ++p) sums[p][k] = start;
  }
}

// Requantize, add the residual (main convolution only), clamp and write LINES pixels of FILTERS channels.
template <class R, class O, bool IS_MAIN>
__device__ __forceinline__ void finish(int (&sums)[PIXELS][FILTERS], const int4* __restrict__ channels,
                                       const unsigned char* __restrict__ table, unsigned char* __restrict__ output,
                                       const unsigned char* __restrict__ residual, int first_filter, int y, int x,
                                       const Place& place, unsigned image) {
  const int filter = first_filter + place.filter, row = y + place.y, column = x + place.x + place.split * LINES;
  output += (unsigned long long)image * O::image * ((int)R::form == RAW ? 4 : 1);
#pragma unroll
  for (int k = 0; k < FILTERS; ++k) {
    const Channel channel = load_channel<R>(channels, filter + k);
#pragma unroll
    for (int p = 0; p < LINES; ++p) sums[p][k] = requantize<R>(sums[p][k], channel, table + (filter + k) * 256);
  }
  if (OUT_CHECKED && row >= OUT_H) return;
#pragma unroll
  for (int p = 0; p < LINES; ++p) {
    if (OUT_CHECKED && column + p >= OUT_W) return;
#ifdef ADD_OWN
    if (IS_MAIN)
      add_pixel<Residual>(sums[p], image_of<Residual>(residual, image) + offset_of<Residual>(row, column + p, filter),
                          filter);
#endif
    store_pixel<R, O>(output, offset_of<O>(row, column + p, filter), sums[p], filter);
  }
}
