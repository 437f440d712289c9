// Tensors in memory, as layout.py describes them with defines.
#pragma once
#include "include/device.cuh"

// Strides in elements of an image, a row, a pixel; start: offset of pixel (0, 0); words: 4-byte words that one access
// may read, 0 if only bytes are aligned; channels: number in memory.
#define TENSOR(name, prefix)         \
  struct name {                      \
    enum {                           \
      image = prefix##_IMAGE,        \
      row = prefix##_ROW,            \
      pixel = prefix##_PIXEL,        \
      start = prefix##_START,        \
      words = prefix##_WORDS,        \
      channels = prefix##_CHANNELS,  \
      is_signed = prefix##_SIGNED    \
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
  return T::start + row * T::row + column * T::pixel + channel;
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
