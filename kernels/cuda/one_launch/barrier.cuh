// For a kernel that computes a whole network (source.py): its barrier of all blocks, by a word of global memory.
//
// NETWORK_BLOCKS: of the launch; all of them must be resident at once (plan.py proves it), or the barrier never opens.
#pragma once
#include "include/device.cuh"

// The counter as other blocks change it.
__device__ __forceinline__ unsigned poll(const unsigned* counter) {
#ifdef EDGEMETA_EMULATION
  return emulation::poll(counter);
#else
  return *reinterpret_cast<const volatile unsigned*>(counter);
#endif
}

// Every thread of every block waits here; what any of them wrote before is visible to all of them after. One thread of
// each block adds to the counter: 1, except that block 0 adds 2**31 - (blocks - 1). So the sum of a round is 2**31: the
// top bit changes with the last arrival and not before, and the bits below are 0 again. Nothing has to be reset.
__device__ __forceinline__ void wait_for_all_blocks(unsigned* counter) {
  __syncthreads();
  if (NETWORK_BLOCKS == 1) return;
  if (threadIdx.x == 0) {
    __threadfence();  // publishes the block's results, which the barrier above has collected
    const unsigned before = atomicAdd(counter, blockIdx.x == 0 ? 0x80000000u - (NETWORK_BLOCKS - 1) : 1u);
    while (((poll(counter) ^ before) & 0x80000000u) == 0) {
    }
    __threadfence();  // no later load of the block is older than the last arrival
  }
  __syncthreads();
}
