// State of the emulated driver: contexts with their objects, and the faults that a test requested.
#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "../runtime/abi.h"
#include "api.h"

using Operation = std::function<CUresult()>;  // work on a stream
using Clock = std::chrono::steady_clock;

// `bytes` bytes between two guards; filled with garbage, like newly allocated memory.
class Memory {
 public:
  explicit Memory(size_t bytes);
  uint8_t *start() const { return start_; }
  size_t bytes() const { return bytes_; }
  bool holds(const void *address, size_t size) const;
  bool is_intact() const;  // nothing was written into the guards

 private:
  std::vector<uint8_t> arena_;
  uint8_t *start_;
  size_t bytes_;
};

struct Graph {
  std::vector<Operation> operations;
};

// Work stays in `pending` until something synchronizes with it: the API allows that, and it reveals a missing
// synchronization.
struct Stream {
  bool is_blocking;  // ordered with the default stream
  std::deque<Operation> pending;
  std::unique_ptr<Graph> capture;
  bool is_capture_broken = false;
  std::thread::id capturer;
};

struct Event {
  Stream *stream = nullptr;  // where it was recorded and is still pending
  bool is_recorded = false;
  Clock::time_point time;
};

struct Module {
  void *handle;
  int descriptor;
  std::vector<std::unique_ptr<Function>> functions;
  ~Module();
};

struct Function {
  Module *module;
  const emulation::Kernel *kernel;
  int (*launch)(const emulation::Kernel *, emulation::Request *);
  uint32_t static_shared_bytes;
  uint32_t max_dynamic_shared_bytes;
};

template <class T>
using Owned = std::map<T *, std::unique_ptr<T>>;

struct Context {
  CUdevice device = 0;
  int uses = 1;
  CUresult failure = kSuccess;  // an error after which the context can only be destroyed
  std::map<CUdeviceptr, Memory> device_memory;
  std::map<void *, Memory> host_memory;
  Owned<Stream> streams;
  Owned<Event> events;
  Owned<Module> modules;
  Owned<Graph> graphs;
};

struct Driver {
  std::recursive_mutex mutex;
  bool is_initialized = false;
  int devices, architecture;  // number of devices, and their architecture, such as 870
  size_t device_bytes;        // memory of a context
  Owned<Context> contexts;
  std::map<std::string, long> calls;
  std::map<std::string, std::map<long, CUresult>> faults;  // by name and number of the call

  Driver();
  CUresult next_fault(const std::string &name);  // counts a call
};

extern Driver driver;
extern thread_local std::vector<Context *> current_contexts;

// Writes a message to stderr that explains an error beyond its CUresult.
void say(const std::string &message);

// Executes all work of a stream, or of all blocking streams of a context. The context keeps the first failure.
CUresult drain(Context &context, Stream &stream);
CUresult drain_blocking(Context &context);

// Whether the calling thread is capturing; such a thread must not wait. Invalidates the capture, as the driver does.
bool breaks_a_capture(Context &context);

// Enqueues work on a stream; null is the default stream, which is executed at once, after all blocking streams.
CUresult enqueue(Context &context, Stream *stream, Operation operation);

// Device memory that holds [address, address + bytes), or null.
Memory *find(Context &context, CUdeviceptr address, size_t bytes);

// First part of every entry point: the lock, requested faults, a current context without an earlier error.
template <class Body>
CUresult entry(const char *name, Body body) {
  const std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  const CUresult fault = driver.next_fault(name);
  if (!driver.is_initialized) return kNotInitialized;
  if (current_contexts.empty()) return fault != kSuccess ? fault : kInvalidContext;
  Context &context = *current_contexts.back();
  const bool sticks = fault == kIllegalAddress || fault == kMisalignedAddress || fault == kLaunchFailed ||
                      fault == kEccUncorrectable || fault == kUnknown;
  if (context.failure == kSuccess && sticks) context.failure = fault;
  if (context.failure != kSuccess) return context.failure;
  if (fault != kSuccess) return fault;
  return body(context);
}
