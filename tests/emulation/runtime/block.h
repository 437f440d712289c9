// Interface of a running kernel to the machine (machine.cpp): its thread's indices, and waiting for other threads.
#pragma once
#include "vectors.h"

// Code of the emulation itself, which the checks (checks.cpp) ignore.
#define EMULATION_UNCHECKED __attribute__((no_sanitize("thread", "undefined")))

struct dim3 {
  unsigned x, y, z;
};

extern uint3 threadIdx, blockIdx;  // machine.cpp
extern dim3 blockDim, gridDim;

namespace emulation {

void *dynamic_shared();
void wait_block(int line);
void wait_warp(unsigned mask);
unsigned lane();

// Publishes the address of a value to the warp; returns the addresses of all lanes, valid until the next wait_warp.
// For lanes outside the mask it is the address of poison bytes.
const void *const *exchange(const void *mine, unsigned mask);

// The word at an address, which another block changes: the thread waits while other blocks run, then reads it.
unsigned poll(const unsigned *address);

// Waits until every thread of all blocks of the launch, which are one cluster, has come here as often. What a thread
// has done before is ordered before what any other does after.
void wait_for_cluster(int line);

// For the race check; all do nothing in a fast module. What a block has done before a fence is ordered before what
// another block does after a fence that follows an atomic access to a word that the first has accessed atomically
// since. meet_blocks: as such an access, to no word of the launch.
void touch_atomically(const void *address, unsigned bytes);
void meet_blocks();
void fence();

}  // namespace emulation
