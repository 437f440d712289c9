#include "machine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "checks.h"
#include "fiber.h"

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

namespace emulation {

Machine machine;

namespace {

constexpr size_t kStackStride = kStackBytes + 192;  // so that the tops of stacks fall into different cache sets
uint8_t poison[64];                                 // value of lanes outside a mask

uint3 coordinates(unsigned index, dim3 size) {
  if (size.x * size.y == 0) return {0, 0, 0};
  return {index % size.x, index / size.x % size.y, index / (size.x * size.y)};
}

void to_scheduler() { emulation_switch(&machine.thread[machine.current].stack_pointer, machine.scheduler); }

void thread_main() {
  machine.kernel->call(machine.request->parameters);
  machine.thread[machine.current].state = State::kDone;
  to_scheduler();
  std::abort();  // an ended thread is never continued
}

// Runs a thread until it waits or ends.
void run_thread(unsigned index) {
  Thread &thread = machine.thread[index];
  if (thread.stack_pointer == nullptr) {
    thread.stack = machine.free_stacks[--machine.free_stack_count];
    thread.stack_pointer = new_fiber(thread.stack + kStackBytes, thread_main);
  }
  machine.current = index;
  threadIdx = coordinates(index, blockDim);
  machine.is_in_thread = true;
  emulation_switch(&machine.scheduler, thread.stack_pointer);
  machine.is_in_thread = false;
  if (thread.state == State::kDone) machine.free_stacks[machine.free_stack_count++] = thread.stack;
  if (thread.state != State::kPolling) machine.progressed = true;
}

// Resumes the lanes whose whole mask waits with the same mask. Returns whether there were any.
bool release_warp(unsigned warp) {
  const unsigned first = warp * 32, lanes = std::min(32u, machine.threads - first);
  bool released = false;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (machine.thread[first + lane].state != State::kAtWarpBarrier) continue;
    const unsigned mask = machine.thread[first + lane].mask;
    bool complete = true;
    for (unsigned other = 0; other < lanes; ++other) {
      const Thread &thread = machine.thread[first + other];
      const bool arrived = thread.state == State::kAtWarpBarrier && thread.mask == mask;
      if (mask >> other & 1 && thread.state != State::kDone && !arrived) complete = false;
    }
    if (!complete) continue;
    for (unsigned other = 0; other < 32; ++other) {
      const bool takes_part = other < lanes && mask >> other & 1 && machine.thread[first + other].state != State::kDone;
      if (takes_part) machine.thread[first + other].state = State::kReady;
      else machine.given[first + other] = poison;
    }
    ++machine.warp_clock[warp];
    released = true;
  }
  return released;
}

// Runs a warp until every lane waits at __syncthreads or has ended.
void run_warp(unsigned warp) {
  const unsigned first = warp * 32, lanes = std::min(32u, machine.threads - first);
  do {
    for (unsigned lane : machine.lane_order)
      if (lane < lanes && machine.thread[first + lane].state == State::kReady && !machine.failed)
        run_thread(first + lane);
    if (machine.failed) return;
  } while (release_warp(warp));
  const auto polls = [](const Thread &thread) { return thread.state == State::kPolling; };
  if (std::any_of(machine.thread + first, machine.thread + first + lanes, polls)) return;
  for (unsigned lane = 0; lane < lanes; ++lane)
    if (machine.thread[first + lane].state == State::kAtWarpBarrier) {
      machine.current = first + lane;
      return fail(nullptr,
                  "waits at a warp barrier or shuffle with mask 0x%08x that other lanes of the mask do not reach",
                  machine.thread[first + lane].mask);
    }
}

// Ends a barrier interval. Returns false if all threads have ended, one polls, or the launch failed.
bool release_block() {
  const Thread *const begin = machine.thread, *const end = begin + machine.threads;
  const auto waits = [](const Thread &thread) { return thread.state == State::kAtBlockBarrier; };
  if (std::any_of(begin, end, [](const Thread &thread) { return thread.state == State::kPolling; })) return false;
  const Thread *const waiting = std::find_if(begin, end, waits);
  if (waiting == end) return false;
  const Thread *const ended = std::find_if_not(begin, end, waits);
  machine.current = unsigned(waiting - begin);
  if (ended != end) {
    fail(nullptr, "waits at __syncthreads in line %d, but thread %u of the block has ended", waiting->line,
         unsigned(ended - begin));
    return false;
  }
  const auto elsewhere = [&](const Thread &thread) { return thread.line != waiting->line; };
  const Thread *const other = std::find_if(begin, end, elsewhere);
  if (other != end) {
    fail(nullptr, "waits at __syncthreads in line %d, but thread %u of the block waits in line %d", waiting->line,
         unsigned(other - begin), other->line);
    return false;
  }
  for (unsigned i = 0; i < machine.threads; ++i) machine.thread[i].state = State::kReady;
  ++machine.clock;
  ++machine.barriers;
  return true;
}

template <class Random>
void arrange(unsigned *order, unsigned size, Random &random) {
  for (unsigned i = 0; i < size; ++i) order[i] = i;
  if (machine.request->order < 0) std::reverse(order, order + size);
  if (machine.request->order > 0) std::shuffle(order, order + size, random);
}

constexpr size_t kStacksBytes(unsigned threads) { return threads * kStackStride; }

char *new_stacks(unsigned threads) {
  void *const memory =
      mmap(nullptr, kStacksBytes(threads), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return static_cast<char *>(memory);
}

// A block that has started: what the machine has in hand while another block runs.
struct Block {
  unsigned number;
  Thread thread[kMaxThreads];
  uint32_t warp_clock[kMaxWarps], first_clock;
  unsigned warp_order[kMaxWarps], lane_order[32];
  char *stacks, *free_stacks[kMaxThreads];
  unsigned free_stack_count;
  uint8_t *static_shared, *dynamic_shared;
  SharedChecks *checks;
};

// Continues a block until all its threads have ended or one polls. Returns whether they have ended.
bool run(Block &block) {
  machine.thread = block.thread;
  machine.warp_clock = block.warp_clock;
  machine.free_stacks = block.free_stacks;
  machine.free_stack_count = block.free_stack_count;
  machine.first_clock = block.first_clock;
  machine.block = block.number;
  blockIdx = coordinates(block.number, gridDim);
  std::copy_n(block.warp_order, machine.warps, machine.warp_order);
  std::copy_n(block.lane_order, 32, machine.lane_order);
  do {
    for (unsigned i = 0; i < machine.warps && !machine.failed; ++i) run_warp(machine.warp_order[i]);
  } while (!machine.failed && release_block());
  block.free_stack_count = machine.free_stack_count;
  const auto ended = [](const Thread &thread) { return thread.state == State::kDone; };
  return std::all_of(block.thread, block.thread + machine.threads, ended);
}

Block *start(unsigned number, char *stacks) {
  Block *const block = static_cast<Block *>(std::calloc(1, sizeof(Block)));
  block->number = number;
  block->stacks = stacks != nullptr ? stacks : new_stacks(machine.threads);
  for (unsigned i = 0; i < machine.threads; ++i)
    block->free_stacks[i] = block->stacks + (machine.threads - 1 - i) * kStackStride;
  block->free_stack_count = machine.threads;
  block->first_clock = ++machine.clock;
  const int byte = int(machine.request->poison);
  std::fill(__start_emulation_shared, __stop_emulation_shared, char(byte));
  std::fill_n(machine.dynamic_shared, machine.request->shared_bytes, uint8_t(byte));
  start_shared_checks();
  return block;
}

// Frees a block; returns its stacks, for the next one.
char *end(Block *block) {
  char *const stacks = block->stacks;
  std::free(block->static_shared);
  std::free(block->dynamic_shared);
  if (block->checks != nullptr) delete_shared_checks(block->checks);
  std::free(block);
  return stacks;
}

// A block that polls gives its place to another: its shared memory and what is known of the accesses to it.
void put_aside(Block &block) {
  const size_t size = size_t(__stop_emulation_shared - __start_emulation_shared);
  if (block.dynamic_shared == nullptr) {
    block.static_shared = static_cast<uint8_t *>(std::malloc(size + 1));
    block.dynamic_shared = static_cast<uint8_t *>(std::malloc(machine.request->shared_bytes + 1));
    block.checks = new_shared_checks();
  }
  std::copy_n(__start_emulation_shared, size, block.static_shared);
  std::copy_n(machine.dynamic_shared, machine.request->shared_bytes, block.dynamic_shared);
}

void take_up(Block &block) {
  const size_t size = size_t(__stop_emulation_shared - __start_emulation_shared);
  std::copy_n(block.static_shared, size, __start_emulation_shared);
  std::copy_n(block.dynamic_shared, machine.request->shared_bytes, machine.dynamic_shared);
  if (block.checks != nullptr) use_shared_checks(block.checks);
  ++machine.clock;
  for (unsigned i = 0; i < machine.threads; ++i)
    if (block.thread[i].state == State::kPolling) block.thread[i].state = State::kReady;
}

// Continues the blocks that poll by turns, until all have ended.
void run_by_turns(Block **blocks, unsigned count) {
  unsigned left = count;
  while (left > 0 && !machine.failed) {
    machine.progressed = false;
    for (unsigned i = 0; i < count && !machine.failed; ++i) {
      if (blocks[i] == nullptr) continue;
      take_up(*blocks[i]);
      if (!run(*blocks[i])) {
        put_aside(*blocks[i]);
        continue;
      }
      munmap(end(blocks[i]), kStacksBytes(machine.threads));
      blocks[i] = nullptr;
      --left;
    }
    if (!machine.progressed && !machine.failed)
      fail(nullptr, "polls a word that no other block changes: %u blocks wait for each other", left);
  }
  for (unsigned i = 0; i < count; ++i)
    if (blocks[i] != nullptr) munmap(end(blocks[i]), kStacksBytes(machine.threads));
}

}  // namespace

void fail(void *program_counter, const char *format, ...) {
  if (machine.failed) return;
  machine.failed = true;
  const uint3 thread = coordinates(machine.current, blockDim);
  Request &request = *machine.request;
  const int used = std::snprintf(request.error, request.error_bytes, "%s: block (%u, %u, %u), thread (%u, %u, %u): ",
                                 machine.kernel->name, blockIdx.x, blockIdx.y, blockIdx.z, thread.x, thread.y,
                                 thread.z);
  va_list values;
  va_start(values, format);
  if (used > 0 && uint32_t(used) < request.error_bytes)
    std::vsnprintf(request.error + used, request.error_bytes - uint32_t(used), format, values);
  va_end(values);
  request.program_counter =
      program_counter == nullptr ? 0 : uint64_t(static_cast<char *>(program_counter) - module_start());
  if (machine.is_in_thread) to_scheduler();  // for good
}

void *dynamic_shared() { return machine.dynamic_shared; }

unsigned lane() { return machine.current & 31; }

void wait_block(int line) {
  Thread &thread = machine.thread[machine.current];
  thread.line = line;
  thread.state = State::kAtBlockBarrier;
  to_scheduler();
}

unsigned poll(const unsigned *address) {
  machine.thread[machine.current].state = State::kPolling;
  to_scheduler();
  touch_atomically(address, sizeof *address);
  return *address;
}

void wait_for_cluster(int line) {
  const unsigned all = machine.threads * gridDim.x * gridDim.y * gridDim.z;
  wait_block(line);
  fence();
  meet_blocks();
  const unsigned before = machine.cluster_arrivals++;
  do {
    machine.thread[machine.current].state = State::kPolling;
    to_scheduler();
    meet_blocks();
  } while (machine.cluster_arrivals / all == before / all);
  fence();
}

void wait_warp(unsigned mask) {
  Thread &thread = machine.thread[machine.current];
  if (!(mask >> lane() & 1))
    fail(__builtin_return_address(0), "executes a warp barrier whose mask 0x%08x does not include it", mask);
  thread.mask = mask;
  thread.state = State::kAtWarpBarrier;
  to_scheduler();
}

const void *const *exchange(const void *mine, unsigned mask) {
  machine.given[machine.current] = mine;
  wait_warp(mask);
  return machine.given + (machine.current & ~31u);
}

}  // namespace emulation

using emulation::machine;

EMULATION_EXPORT uint32_t emulation_static_shared_bytes() {
  return uint32_t(emulation::__stop_emulation_shared - emulation::__start_emulation_shared);
}

EMULATION_EXPORT uint64_t emulation_barriers() { return machine.barriers; }

EMULATION_EXPORT int emulation_launch(const emulation::Kernel *kernel, emulation::Request *request) {
  machine.kernel = kernel;
  machine.request = request;
  machine.failed = false;
  machine.clock = 0;
  machine.barriers = 0;
  machine.cluster_arrivals = 0;
  machine.current = 0;
  gridDim = {request->grid[0], request->grid[1], request->grid[2]};
  blockDim = {request->block[0], request->block[1], request->block[2]};
  machine.threads = blockDim.x * blockDim.y * blockDim.z;
  machine.warps = (machine.threads + 31) / 32;
  const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
  if (machine.threads == 0 || machine.threads > emulation::kMaxThreads || blocks == 0) {
    emulation::fail(nullptr,
                    "a launch needs 1 to %u threads in a block and at least one block, not %u threads in %u blocks",
                    emulation::kMaxThreads, machine.threads, blocks);
    return 1;
  }
  std::fill_n(emulation::poison, sizeof emulation::poison, uint8_t(request->poison));
  void *dynamic = nullptr;  // exactly the requested size, so that AddressSanitizer sees its end
  if (posix_memalign(&dynamic, emulation::kSharedAlignment, request->shared_bytes) != 0) std::abort();
  machine.dynamic_shared = static_cast<uint8_t *>(dynamic);
  emulation::start_checks();
  std::mt19937_64 random(uint64_t(request->order));
  unsigned *const block_order = static_cast<unsigned *>(std::calloc(blocks, sizeof *block_order));
  emulation::arrange(block_order, blocks, random);
  emulation::Block **const waiting = static_cast<emulation::Block **>(std::calloc(blocks, sizeof *waiting));
  unsigned waiting_count = 0;
  char *stacks = nullptr;
  for (unsigned i = 0; i < blocks && !machine.failed; ++i) {
    emulation::Block *const block = emulation::start(block_order[i], stacks);
    emulation::arrange(block->warp_order, machine.warps, random);
    emulation::arrange(block->lane_order, 32, random);
    stacks = nullptr;
    if (emulation::run(*block) || machine.failed) {
      stacks = emulation::end(block);
    } else {
      emulation::put_aside(*block);
      waiting[waiting_count++] = block;
    }
  }
  emulation::run_by_turns(waiting, waiting_count);
  if (stacks != nullptr) munmap(stacks, emulation::kStacksBytes(machine.threads));
  std::free(waiting);
  std::free(block_order);
  emulation::end_checks();
  std::free(dynamic);
  return machine.failed ? 1 : 0;
}
