// Binary interface between a compiled kernel module and its host: plain data, read by ctypes
// (tests/emulation/module.py) and by the emulated driver.
#pragma once
#include <stdint.h>

#define EMULATION_EXPORT extern "C" __attribute__((visibility("default")))

namespace emulation {

// One kernel of a module, exported as emulation_kernel_<name>.
struct Kernel {
  const char *name;
  void (*call)(void *const *parameters);  // runs one thread; parameters[i] is the address of the i-th argument
  uint32_t parameter_count;
  const uint32_t *parameter_bytes;
};

// Memory that a launch may access. Checked modules reject all other addresses.
struct Object {
  const char *name;
  uint8_t *address;
  uint64_t bytes;
  int32_t is_writable;
};

// One launch. order: 0 forward, -1 reverse, otherwise the seed of a shuffle; of blocks, warps and lanes. poison: the
// byte that shared memory holds when a block starts. error: buffer for the error message.
// program_counter: on an error, the offset in the module of the code that did it, or 0.
struct Request {
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes;
  uint32_t object_count;
  const Object *objects;
  void *const *parameters;
  int64_t order;
  uint32_t poison;
  uint32_t error_bytes;
  char *error;
  uint64_t program_counter;
};

}  // namespace emulation

// Runs all blocks of a launch, one after the other. Returns 0, or 1 with a message in request->error. A module has one
// machine: its launches must not overlap in time.
EMULATION_EXPORT int emulation_launch(const emulation::Kernel *kernel, emulation::Request *request);

// Bytes of the module's static shared arrays.
EMULATION_EXPORT uint32_t emulation_static_shared_bytes();

// Number of __syncthreads executed in the last launch, summed over its blocks.
EMULATION_EXPORT uint64_t emulation_barriers();
