// Tensors in memory, as layout.py describes them with defines.
#pragma once
#include "include/device.cuh"

// Strides in elements of an image, a row, a pixel; start: offset of pixel (0, 0); words: 4-byte words that one access
// may read, 0 if only bytes are aligned; channels: number in memory; nibbles: two of them to a byte.
#define TENSOR(name, prefix)         \
  struct name {                      \
    enum {                           \
      image = prefix##_IMAGE,        \
      row = prefix##_ROW,            \
      pixel = prefix##_PIXEL,        \
      start = prefix##_START,        \
      words = prefix##_WORDS,        \
      channels = prefix##_CHANNELS,  \
      is_signed = prefix##_SIGNED,   \
      nibbles = prefix##_NIBBLES     \
    };                               \
  }

// The image of this block, or of a given number. 64 bits, since a batch may be large; offsets within an image fit in 32
// bits.
template <class T, class Pointer>
__device__ __forceinline__ Pointer image_of(Pointer tensor, unsigned image) {
  return tensor + (unsigned long long)image * T::image;
}
template <class T, class Pointer>
__device__ __forceinline__ Pointer image_of(Pointer tensor) {
  return image_of<T>(tensor, blockIdx.z);
}

template <class T>
__device__ __forceinline__ int offset_of(int row, int column, int channel) {
  return T::start + row * T::row + column * T::pixel + (T::nibbles ? channel / 2 : channel);
}

// The channels of a word of a tensor.
template <class T>
__device__ constexpr int word_channels() {
  return T::nibbles ? 8 : 4;
}

// A word of nibbles from two words whose bytes are of 4 bits each: byte c has that of `low` and, above it, of `high`.
template <bool SIGNED>
__device__ __forceinline__ int pack_nibbles(int low, int high) {
  const unsigned shifted = (unsigned)high << 4;
  if (SIGNED) return (int)(((unsigned)low & 0x0F0F0F0Fu) | (shifted & 0xF0F0F0F0u));
  return (int)((unsigned)low + shifted);
}

// A word of a tensor from its channels.
template <class T>
__device__ __forceinline__ int pack_word(const int* values) {
  const int low = pack_bytes(values[0], values[1], values[2], values[3]);
  if (!T::nibbles) return low;
  return pack_nibbles<T::is_signed>(low, pack_bytes(values[4], values[5], values[6], values[7]));
}

// Channels channel .. channel + 3 as the bytes of a word; channels that do not exist are 0.
template <class T>
__device__ __forceinline__ int load_four(const unsigned char* __restrict__ from, int channel) {
  if (T::words > 0) return *reinterpret_cast<const int*>(from);
  int word = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (channel + i < T::channels) word |= (int)load_activation(from + i) << 8 * i;
  return word;
}

// The low bytes of four values to channels channel .. channel + 3, as far as they exist.
template <class T>
__device__ __forceinline__ void store_four(unsigned char* __restrict__ to, int channel, const int* values) {
  if (T::words > 0) {
    *reinterpret_cast<int*>(to) = pack_bytes(values[0], values[1], values[2], values[3]);
    return;
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (channel + i < T::channels) to[i] = (unsigned char)values[i];
}

// The bytes of a word as 16-bit pairs of channels 0, 1 and 2, 3.
template <class T>
__device__ __forceinline__ void unpack(int word, int& low, int& high) {
  low = permute(word, T::is_signed ? 0x9180 : 0x4140);
  high = permute(word, T::is_signed ? 0xB3A2 : 0x4342);
}

// The bytes of a word as four values.
template <class T>
__device__ __forceinline__ void unpack_four(int word, int* values) {
  int low, high;
  unpack<T>(word, low, high);
  values[0] = (short)low, values[1] = low >> 16, values[2] = (short)high, values[3] = high >> 16;
}

// The channels of a word as 16-bit values, of which each has its upper half undefined.
template <class T>
__device__ __forceinline__ void unpack_word(int word, int* values) {
  if (T::nibbles) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const int above = 28 - 8 * (i % 4) - 4 * (i / 4);  // bits above the nibble
      values[i] = T::is_signed ? (int)((unsigned)word << above) >> 28 : (int)((unsigned)word << above >> 28);
    }
    return;
  }
  int low, high;
  unpack<T>(word, low, high);
  values[0] = low, values[1] = low >> 16, values[2] = high, values[3] = high >> 16;
}
