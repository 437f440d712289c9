// For a kernel that computes a whole network (source.py): its barrier of all blocks, which are one cluster (from sm_90
// on). The blocks of a cluster are resident at once, and a multiprocessor knows without a look at memory when all of
// them have arrived.
#pragma once
#include "include/device.cuh"

// Every thread of every block waits here; what any of them wrote before is visible to all of them after: the arrival
// publishes a thread's results, and no load after the wait is older than the last arrival.
__device__ __forceinline__ void wait_for_all_blocks() {
#ifdef EDGEMETA_EMULATION
  emulation::wait_for_cluster(__LINE__);
#else
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}
