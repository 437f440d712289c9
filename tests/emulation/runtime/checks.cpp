#include "checks.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "machine.h"

// The first and last bytes of this module in memory, set by the linker.
extern "C" __attribute__((visibility("hidden"))) char __ehdr_start[], _end[];

namespace emulation {
namespace {

enum class Access { kRead, kWrite, kAtomic };

constexpr uint32_t kNobody = 0xffffffff, kMany = 0xfffffffe;

// Which thread accessed a byte last, and when. thread kMany: several threads of one warp; warp kMany: of several warps;
// block kMany: of several blocks.
struct Touch {
  uint32_t clock, warp_clock, block, thread, warp;
  bool is_atomic;
};

// Clock 0 is before every launch: no byte has been accessed yet.
struct Cell {
  Touch write, read;
};

struct Region {
  const char *name;
  uint8_t *start;
  uint64_t bytes;
  Cell *cells;  // one for every byte; null where nobody may write
  bool is_shared;
};

Region *regions;
unsigned region_count;

Touch now(bool is_atomic) {
  const unsigned warp = machine.current / 32;
  return {machine.clock, machine.warp_clock[warp], machine.block, machine.current, warp, is_atomic};
}

// Order between blocks, through atomic accesses. known[b][a]: up to this clock, exclusive, the accesses of block a are
// ordered before the current ones of block b. At a fence, what a block knows is `published`, with its own clock; its
// next atomic access adds that to what everyone can learn; an atomic access learns that at the next fence.
struct Clocks {
  unsigned blocks;
  uint32_t *known, *published, *learned, *offered;  // [block][block], the last one [block]
};

Clocks clocks;

uint32_t *row(uint32_t *matrix, unsigned block) { return matrix + uint64_t(block) * clocks.blocks; }

void merge(uint32_t *to, const uint32_t *from) {
  for (unsigned i = 0; i < clocks.blocks; ++i)
    if (from[i] > to[i]) to[i] = from[i];
}

void start_clocks() {
  if (clocks.known != nullptr) return;
  clocks.blocks = gridDim.x * gridDim.y * gridDim.z;
  const uint64_t cells = uint64_t(clocks.blocks) * clocks.blocks;
  clocks.known = static_cast<uint32_t *>(std::calloc(cells, sizeof(uint32_t)));
  clocks.published = static_cast<uint32_t *>(std::calloc(cells, sizeof(uint32_t)));
  clocks.learned = static_cast<uint32_t *>(std::calloc(cells, sizeof(uint32_t)));
  clocks.offered = static_cast<uint32_t *>(std::calloc(clocks.blocks, sizeof(uint32_t)));
}

// Whether a block knows an access of another, or of kMany others, the last of which was at that clock.
bool is_known(const Touch &before, unsigned block) {
  const uint32_t *const known = row(clocks.known, block);
  if (before.block != kMany) return before.clock < known[before.block];
  for (unsigned other = 0; other < clocks.blocks; ++other)
    if (other != block && before.clock >= known[other]) return false;
  return true;
}

// Whether the access `before` is ordered before the running thread's current access.
bool is_ordered(const Touch &before, const Touch &after) {
  if (before.clock == 0) return true;
  if (before.block != after.block)
    return clocks.known != nullptr && is_known(before, after.block);
  if (before.clock != after.clock || before.thread == after.thread) return true;
  return before.warp == after.warp && before.warp_clock != after.warp_clock;
}

// The readers of a byte, including the running thread.
void add_reader(Touch &read, const Touch &after) {
  if (read.clock != 0 && read.block != after.block) {
    if (is_ordered(read, after)) read = after;
    else read.block = kMany, read.clock = after.clock;
  } else if (read.clock != after.clock) {
    read = after;
  } else if (read.warp != after.warp) {
    read.warp = read.thread = kMany;
  } else if (read.warp_clock != after.warp_clock) {
    read = after;
  } else if (read.thread != after.thread) {
    read.thread = kMany;
  }
}

const char *verb(Access access) {
  return access == Access::kRead ? "reads" : access == Access::kWrite ? "writes" : "updates";
}

// Describes the thread that accessed a byte before.
const char *who(const Touch &before, char (&text)[64]) {
  if (before.block == kMany) return "threads of other blocks";
  if (before.block != machine.block)
    std::snprintf(text, sizeof text, "a thread of block %u", before.block);
  else if (before.warp == kMany)
    return "threads of several warps";
  else if (before.thread == kMany)
    return "other threads of its warp";
  else
    std::snprintf(text, sizeof text, "thread %u", before.thread);
  return text;
}

void fail_race(void *pc, const Region &region, uint64_t offset, Access access, const char *did, const Touch &before) {
  char text[64];
  fail(pc, "race: it %s %s at byte %lu, which %s %s with no barrier between them", verb(access), region.name,
       static_cast<unsigned long>(offset), who(before, text), did);
}

void check_byte(void *pc, const Region &region, uint64_t offset, Access access) {
  Cell &cell = region.cells[offset];
  const Touch touch = now(access == Access::kAtomic);
  if (region.is_shared && access != Access::kWrite && cell.write.clock < machine.first_clock)
    fail(pc, "it %s %s at byte %lu, which no thread of the block has written", verb(access), region.name,
         static_cast<unsigned long>(offset));
  const bool both_atomic = touch.is_atomic && cell.write.is_atomic;
  const bool was_in_block = !region.is_shared || cell.write.clock >= machine.first_clock;
  if (was_in_block && !both_atomic && !is_ordered(cell.write, touch))
    fail_race(pc, region, offset, access, "wrote", cell.write);
  const bool was_read = !region.is_shared || cell.read.clock >= machine.first_clock;
  if (access == Access::kRead && !was_read) cell.read = touch;
  if (access == Access::kRead) return add_reader(cell.read, touch);
  if (was_read && !is_ordered(cell.read, touch)) fail_race(pc, region, offset, access, "read", cell.read);
  cell.write = touch;
}

bool is_within(const uint8_t *address, unsigned bytes, const void *start, uint64_t size) {
  const uint8_t *const first = static_cast<const uint8_t *>(start);
  return address >= first && uint64_t(address - first) + bytes <= size;
}

// Fails for an address outside all regions, and names the nearest one.
void fail_stray(void *pc, const uint8_t *address, unsigned bytes, Access access) {
  const Region *nearest = nullptr;
  uint64_t least = 1 << 20;
  for (unsigned i = 0; i < region_count; ++i) {
    const uint8_t *const start = regions[i].start, *const end = start + regions[i].bytes;
    const uint64_t distance = address < start ? uint64_t(start - address) : address < end ? 0 : uint64_t(address - end);
    if (distance < least) nearest = &regions[i], least = distance;
  }
  if (nearest == nullptr)
    return fail(pc, "out of bounds: it %s %u bytes, no memory of this launch", verb(access), bytes);
  const char *const side = address < nearest->start              ? "before"
                           : address < nearest->start + nearest->bytes ? "across the end of"
                                                                 : "after the end of";
  fail(pc, "out of bounds: it %s %u bytes, %lu bytes %s %s (%lu bytes)", verb(access), bytes,
       static_cast<unsigned long>(least), side, nearest->name, static_cast<unsigned long>(nearest->bytes));
}

void check(void *pc, const void *pointer, unsigned bytes, Access access) {
  if (!machine.is_in_thread) return;
  const uint8_t *const address = static_cast<const uint8_t *>(pointer);
  if (is_within(address, bytes, machine.thread[machine.current].stack, kStackBytes)) return;
  if ((bytes & (bytes - 1)) == 0 && reinterpret_cast<uintptr_t>(address) % bytes != 0)
    fail(pc, "misaligned: it %s %u bytes at an address that is not a multiple of %u", verb(access), bytes, bytes);
  for (unsigned i = 0; i < region_count; ++i) {
    const Region &region = regions[i];
    if (!is_within(address, bytes, region.start, region.bytes)) continue;
    const uint64_t offset = uint64_t(address - region.start);
    if (region.cells == nullptr) {
      if (access != Access::kRead) fail(pc, "it %s %s, a constant", verb(access), region.name);
      return;
    }
    for (unsigned k = 0; k < bytes; ++k) check_byte(pc, region, offset + k, access);
    return;
  }
  const bool is_in_module = is_within(address, bytes, __ehdr_start, uint64_t(_end - __ehdr_start));
  if (is_in_module && access == Access::kRead) return;  // tables of the source, threadIdx
  fail_stray(pc, address, bytes, access);
}

void add_region(const char *name, uint8_t *start, uint64_t bytes, bool is_writable, bool is_shared) {
  if (bytes == 0) return;
  Cell *cells = is_writable ? static_cast<Cell *>(std::calloc(bytes, sizeof(Cell))) : nullptr;
  regions[region_count++] = {name, start, bytes, cells, is_shared};
}

}  // namespace

char *module_start() { return __ehdr_start; }

void start_checks() {
  region_count = 0;
  regions = static_cast<Region *>(std::calloc(2 + machine.request->object_count, sizeof *regions));
  add_region("shared memory", reinterpret_cast<uint8_t *>(__start_emulation_shared),
             uint64_t(__stop_emulation_shared - __start_emulation_shared), true, true);
  add_region("dynamic shared memory", machine.dynamic_shared, machine.request->shared_bytes, true, true);
  for (unsigned i = 0; i < machine.request->object_count; ++i) {
    const Object &object = machine.request->objects[i];
    add_region(object.name, object.address, object.bytes, object.is_writable != 0, false);
  }
}

void end_checks() {
  for (unsigned i = 0; i < region_count; ++i) std::free(regions[i].cells);
  std::free(regions);
  for (uint32_t *each : {clocks.known, clocks.published, clocks.learned, clocks.offered}) std::free(each);
  clocks = Clocks();
}

void fence() {
  start_clocks();
  const unsigned block = machine.block;
  merge(row(clocks.known, block), row(clocks.learned, block));
  std::copy_n(row(clocks.known, block), clocks.blocks, row(clocks.published, block));
  row(clocks.published, block)[block] = machine.clock;
}

struct SharedChecks {
  Cell *cells[2];
};

// Regions of shared memory; they come first.
unsigned shared_count() {
  unsigned count = 0;
  while (count < region_count && regions[count].is_shared) ++count;
  return count;
}

SharedChecks *new_shared_checks() {
  SharedChecks *const checks = static_cast<SharedChecks *>(std::calloc(1, sizeof(SharedChecks)));
  for (unsigned i = 0; i < shared_count(); ++i) {
    checks->cells[i] = regions[i].cells;
    regions[i].cells = nullptr;
  }
  return checks;
}

void start_shared_checks() {
  for (unsigned i = 0; i < shared_count(); ++i)
    if (regions[i].cells == nullptr)
      regions[i].cells = static_cast<Cell *>(std::calloc(regions[i].bytes, sizeof(Cell)));
}

void use_shared_checks(SharedChecks *checks) {
  for (unsigned i = 0; i < shared_count(); ++i) regions[i].cells = checks->cells[i];
}

void delete_shared_checks(SharedChecks *checks) {
  for (unsigned i = 0; i < shared_count(); ++i) {
    if (regions[i].cells == checks->cells[i]) regions[i].cells = nullptr;
    std::free(checks->cells[i]);
  }
  std::free(checks);
}

void meet_blocks() {
  start_clocks();
  merge(clocks.offered, row(clocks.published, machine.block));
  merge(row(clocks.learned, machine.block), clocks.offered);
}

void touch_atomically(const void *address, unsigned bytes) {
  meet_blocks();
  check(__builtin_return_address(0), address, bytes, Access::kAtomic);
}

}  // namespace emulation

// Called by compiled code before every memory access, by size; `unaligned` where the type requires less alignment.
#define EMULATION_CHECK(kind, access, bytes)                                                                        \
  extern "C" __attribute__((visibility("hidden"))) void __tsan_##kind##bytes(void *address) {                       \
    emulation::check(__builtin_return_address(0), address, bytes, emulation::Access::access);                       \
  }
#define EMULATION_CHECK_SIZES(kind, access)                                                                         \
  EMULATION_CHECK(kind, access, 1)                                                                                  \
  EMULATION_CHECK(kind, access, 2)                                                                                  \
  EMULATION_CHECK(kind, access, 4)                                                                                  \
  EMULATION_CHECK(kind, access, 8)                                                                                  \
  EMULATION_CHECK(kind, access, 16)
EMULATION_CHECK_SIZES(read, kRead)
EMULATION_CHECK_SIZES(write, kWrite)
EMULATION_CHECK_SIZES(unaligned_read, kRead)
EMULATION_CHECK_SIZES(unaligned_write, kWrite)

#define EMULATION_CHECK_RANGE(kind, access)                                                                         \
  extern "C" __attribute__((visibility("hidden"))) void __tsan_##kind##_range(void *address, unsigned long bytes) { \
    for (unsigned long i = 0; i < bytes; ++i)                                                                       \
      emulation::check(__builtin_return_address(0), static_cast<char *>(address) + i, 1, emulation::Access::access); \
  }
EMULATION_CHECK_RANGE(read, kRead)
EMULATION_CHECK_RANGE(write, kWrite)
extern "C" __attribute__((visibility("hidden"))) void __tsan_init() {}

// Called by compiled code on undefined behaviour; the first argument begins with the source location.
struct Place {
  const char *file;
  uint32_t line, column;
};
#define EMULATION_UNDEFINED(kind, words)                                                                            \
  extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_##kind(const Place *place) {         \
    emulation::fail(nullptr, "undefined behaviour: %s, %s:%u", words, place->file, place->line);                    \
    std::abort();                                                                                                   \
  }
EMULATION_UNDEFINED(add_overflow_abort, "a signed sum overflows")
EMULATION_UNDEFINED(sub_overflow_abort, "a signed difference overflows")
EMULATION_UNDEFINED(mul_overflow_abort, "a signed product overflows")
EMULATION_UNDEFINED(negate_overflow_abort, "a negation overflows")
EMULATION_UNDEFINED(divrem_overflow_abort, "a division by 0 or that overflows")
EMULATION_UNDEFINED(shift_out_of_bounds_abort, "a shift by less than 0 or by the width or more")
EMULATION_UNDEFINED(out_of_bounds_abort, "an index outside its array")
EMULATION_UNDEFINED(type_mismatch_v1_abort, "a null or misaligned pointer")
EMULATION_UNDEFINED(pointer_overflow_abort, "a pointer that overflows")
EMULATION_UNDEFINED(float_cast_overflow_abort, "a float outside the integer's range")
EMULATION_UNDEFINED(load_invalid_value_abort, "a value that its type does not have")
EMULATION_UNDEFINED(builtin_unreachable, "code that cannot be reached is reached")
EMULATION_UNDEFINED(missing_return, "a function ends without a value")
EMULATION_UNDEFINED(invalid_builtin_abort, "an intrinsic without a result for this value")
EMULATION_UNDEFINED(vla_bound_not_positive_abort, "an array of no elements")
