// The machine that runs a block: its threads as fibers, in an order chosen at run time, one barrier interval at a time.
//
// Each warp runs until all its lanes wait at __syncthreads or have ended, then the next warp runs; so between two
// barriers warps run one after the other, in the chosen order, and a result that depends on another order is wrong.
// Blocks run one after the other, too; but where a thread polls a word (block.h) and the others of its block wait for
// it, the next block runs, and the first goes on after that.
#pragma once
#include <cstddef>
#include <cstdint>

#include "abi.h"
#include "block.h"

namespace emulation {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxWarps = kMaxThreads / 32;
constexpr size_t kStackBytes = 128 << 10;  // compiler.py rejects kernels that need more than half of it
constexpr size_t kSharedAlignment = 256;

enum class State : uint8_t { kReady, kAtBlockBarrier, kAtWarpBarrier, kPolling, kDone };

struct Thread {
  void *stack_pointer = nullptr;  // null before it starts
  char *stack = nullptr;          // lowest address; allocated at the start, released at the end
  State state = State::kReady;
  int line = 0;       // of the __syncthreads where it waits
  unsigned mask = 0;  // of the warp barrier where it waits
};

struct Machine {
  const Kernel *kernel;
  Request *request;
  unsigned threads, warps;
  Thread *thread;  // of the running block, as all that follows up to dynamic_shared
  const void *given[kMaxThreads];  // of each lane, for its warp
  unsigned current;                // the running thread's number in the block
  unsigned block;                  // the running block's number in the grid
  unsigned warp_order[kMaxWarps], lane_order[32];
  uint32_t clock;                  // barrier intervals of the launch so far
  uint64_t barriers;               // __syncthreads of all blocks
  uint32_t first_clock;            // the block's first interval
  uint32_t *warp_clock;            // warp barriers of the block so far
  bool is_in_thread;               // not in the scheduler
  bool failed;
  void *scheduler;  // its stack pointer
  char **free_stacks;
  unsigned free_stack_count;
  bool progressed;          // a thread has done more than poll
  unsigned cluster_arrivals;  // of threads of all blocks, at barriers of the cluster
  uint8_t *dynamic_shared;
};

extern Machine machine;

// Ends the launch with an error message about the running thread; returns only if the launch had failed before.
void fail(void *program_counter, const char *format, ...) __attribute__((format(printf, 2, 3)));

extern "C" {  // set by the linker; null in a module without static shared arrays
extern char __start_emulation_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulation_shared[] __attribute__((weak, visibility("hidden")));
}

}  // namespace emulation
