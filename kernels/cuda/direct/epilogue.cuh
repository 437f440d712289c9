// The conversion of sums to outputs.
// Included once for every layer of a kernel.

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
    const int4* first = channels + k * CHANNEL_VECTORS + filter / FILTERS;  // [half][k][vector]
    const Channel channel = channel_at<R>(first, first + FILTERS * CHANNEL_VECTORS);
#pragma unroll
    for (int p = 0; p < LINES; ++p)
      sums[p][k] = requantize<R>((int)((unsigned)sums[p][k] + (unsigned)channel.start), channel,
                                 table + (filter + k) * 256);
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
