// For a kernel that computes a whole network (source.py): the blocks of its layers, and their arguments.
#pragma once
#include "include/device.cuh"

// Block `item` of a layer with ACROSS x DOWN blocks for an image.
template <int ACROSS, int DOWN>
__device__ __forceinline__ Block block_of(int item) {
  const unsigned number = (unsigned)item % (ACROSS * DOWN);
  const Block block = {number % ACROSS, number / ACROSS, (unsigned)item / (ACROSS * DOWN)};
  return block;
}

// Copies BYTES of constants, a multiple of 16, to shared memory, by the threads from FIRST on: the others are still
// busy. They are read after the next barrier of all blocks.
template <int FIRST, int BYTES>
__device__ __forceinline__ void copy_ahead(int4* to, const unsigned char* __restrict__ from) {
  static_assert(BYTES % 16 == 0, "whole pieces are copied");
  if ((int)threadIdx.x < FIRST) return;
#pragma unroll 4
  for (int i = (int)threadIdx.x - FIRST; i < BYTES / 16; i += NETWORK_THREADS - FIRST)
    to[i] = __ldg(reinterpret_cast<const int4*>(from) + i);
}

// A pointer of any type.
struct Untyped {
  const void* address;
  template <class T>
  __device__ __forceinline__ operator T*() const {
    return static_cast<T*>(const_cast<void*>(address));
  }
};
