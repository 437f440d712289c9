// CUDA C++ for g++: qualifiers, built-in variables, barriers, shuffles, intrinsics. C++14, as in CUDA 10.2;
// included before the kernel's unchanged source (g++ -include). Needs __CUDA_ARCH__ to be defined.
//
// A CUDA thread is a fiber, a block runs on one OS thread (machine.h): a shared array is therefore a static array, and
// threads switch only at barriers and shuffles. Shared arrays are in a linker section of their own, where the machine
// finds them; they must be declared in a kernel or in a static function.
#pragma once
#include "block.h"

#define __global__
#define __device__
#define __host__
#define __constant__ static const
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __shared__ static __attribute__((section("emulation_shared")))
#define __restrict__ __restrict
#define DYNAMIC_SHARED(type, name) type *const name = reinterpret_cast<type *>(emulation::dynamic_shared())

static const int warpSize = 32;

namespace emulation {

template <class T>
EMULATION_UNCHECKED inline T read_lane(unsigned mask, T value, unsigned source) {
  const void *const *all = exchange(&value, mask);
  const T result = *static_cast<const T *>(all[source & 31]);
  wait_warp(mask);  // before `value` goes
  return result;
}

// Every lane of a full warp passes its value and receives all 32.
template <class T>
EMULATION_UNCHECKED inline void warp_exchange(const T &mine, T (&all)[32]) {
  const void *const *given = exchange(&mine, 0xffffffffu);
  for (int i = 0; i < 32; ++i) all[i] = *static_cast<const T *>(given[i]);
  wait_warp(0xffffffffu);
}

// The lane `source` if it is in the calling lane's group of `width` lanes, else the calling lane.
inline unsigned below(unsigned width, unsigned source) {
  const unsigned first = lane() & ~(width - 1);
  return source >= first && source < first + width ? source : lane();
}

}  // namespace emulation

#define __syncthreads() emulation::wait_block(__LINE__)
static inline void __syncwarp(unsigned mask = 0xffffffffu) { emulation::wait_warp(mask); }
static inline void __threadfence() { emulation::fence(); }
static inline void __threadfence_block() {}

template <class T>
static inline T __shfl_sync(unsigned mask, T value, int source, int width = 32) {
  const unsigned first = emulation::lane() & ~unsigned(width - 1);
  return emulation::read_lane(mask, value, first + (unsigned(source) & unsigned(width - 1)));
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T value, int flip, int width = 32) {
  return emulation::read_lane(mask, value, emulation::below(unsigned(width), emulation::lane() ^ unsigned(flip)));
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  return emulation::read_lane(mask, value, emulation::below(unsigned(width), emulation::lane() + by));
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  return emulation::read_lane(mask, value, emulation::below(unsigned(width), emulation::lane() - by));
}

#include "intrinsics.h"
#include "matrix.h"
