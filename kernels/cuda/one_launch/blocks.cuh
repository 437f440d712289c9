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

// A pointer of any type.
struct Untyped {
  const unsigned char* address;
  template <class T>
  __device__ __forceinline__ operator T*() const {
    return reinterpret_cast<T*>(const_cast<unsigned char*>(address));
  }
};
