// Consecutive channels of one pixel, computed by one thread: residual addition and store.
// Included once for every layer of a kernel.
#include "include/residual.cuh"
#include "include/tensor.cuh"

#ifdef ADD_OWN
// Add the residual, a tensor T, to channels channel .. channel + COUNT - 1 of the pixel whose `channel` is at `from`.
template <class T, int COUNT>
__device__ __forceinline__ void add_pixel(int (&values)[COUNT], const unsigned char* __restrict__ from, int channel) {
  enum { WORDS = T::words > 0 ? (int)T::words : 1, EACH = word_channels<T>() };
#pragma unroll
  for (int k = 0; k < COUNT; k += EACH * WORDS) {
    if (channel + k >= T::channels) return;
    int words[WORDS];
    if (T::words > 0) {
      load_words<WORDS>(words, reinterpret_cast<const int*>(from + 4 * k / EACH));
    } else {
      words[0] = load_four<T>(from + k, channel + k);
    }
#pragma unroll
    for (int i = 0; i < WORDS; ++i) {
      int other[EACH];
      unpack_word<T>(words[i], other);
#pragma unroll
      for (int j = 0; j < EACH; ++j) values[k + EACH * i + j] = add_residual(values[k + EACH * i + j], other[j]);
    }
  }
}
#endif

// Write channels channel .. channel + COUNT - 1 of one pixel of a tensor T to `at`: bytes, or the raw sums of form R.
template <class R, class T, int COUNT>
__device__ __forceinline__ void store_pixel(unsigned char* __restrict__ output, int at, const int (&values)[COUNT],
                                            int channel) {
  if ((int)R::form == RAW) {
#pragma unroll
    for (int k = 0; k < COUNT; ++k)
      if (channel + k < T::channels) reinterpret_cast<int*>(output)[at + k] = values[k];
    return;
  }
  enum { WORDS = T::words > 0 ? (int)T::words : 1, EACH = word_channels<T>() };
#pragma unroll
  for (int k = 0; k < COUNT; k += EACH * WORDS) {
    if (channel + k >= T::channels) return;
    if (T::words > 0) {
      int words[WORDS];
#pragma unroll
      for (int i = 0; i < WORDS; ++i) words[i] = pack_word<T>(values + k + EACH * i);
      store_words<WORDS>(reinterpret_cast<int*>(output + at + 4 * k / EACH), words);
    } else {
      store_four<T>(output + at + k, channel + k, values + k);
    }
  }
}
