#include "state.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>

Driver driver;
thread_local std::vector<Context *> current_contexts;

namespace {

constexpr size_t kGuard = 4096, kAlignment = 256;
constexpr uint8_t kCanary = 0x5c, kGarbage = 0xc5;

// "cuMemAlloc_v2" and "cuMemAlloc" are one function to a test.
std::string plain(const std::string &name) {
  const size_t end = name.find("_v");
  return name.substr(0, end);
}

long size_of(const std::map<CUdeviceptr, Memory> &memory) {
  long total = 0;
  for (const auto &each : memory) total += long(each.second.bytes());
  return total;
}
long size_of(const std::map<void *, Memory> &memory) {
  long total = 0;
  for (const auto &each : memory) total += long(each.second.bytes());
  return total;
}

// A number from the environment.
long setting(const char *name, long otherwise) {
  const char *text = std::getenv(name);
  return text == nullptr || *text == 0 ? otherwise : std::atol(text);
}

int architecture_from_environment() {
  const char *text = std::getenv("EDGEMETA_EMULATED_ARCHITECTURE");
  return text == nullptr || std::strncmp(text, "sm_", 3) != 0 ? 870 : 10 * std::atoi(text + 3);
}

}  // namespace

Memory::Memory(size_t bytes) : arena_(bytes + 2 * kGuard + kAlignment, kCanary), bytes_(bytes) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(arena_.data()) + kGuard;
  start_ = arena_.data() + kGuard + (kAlignment - first % kAlignment) % kAlignment;
  std::fill_n(start_, bytes, kGarbage);
}

bool Memory::holds(const void *address, size_t size) const {
  const uint8_t *const first = static_cast<const uint8_t *>(address);
  return first >= start_ && first <= start_ + bytes_ && size <= size_t(start_ + bytes_ - first);
}

bool Memory::is_intact() const {
  const auto intact = [](uint8_t byte) { return byte == kCanary; };
  const uint8_t *const begin = arena_.data(), *const end = begin + arena_.size();
  return std::all_of(begin, static_cast<const uint8_t *>(start_), intact) &&
         std::all_of(static_cast<const uint8_t *>(start_) + bytes_, end, intact);
}

// EDGEMETA_EMULATED_FAULTS: "name:nth:result,...", such as "cuMemAlloc:5:2".
Driver::Driver()
    : devices(int(setting("EDGEMETA_EMULATED_DEVICES", 1))),
      architecture(architecture_from_environment()),
      device_bytes(size_t(setting("EDGEMETA_EMULATED_MEMORY", 4L << 30))) {
  const char *text = std::getenv("EDGEMETA_EMULATED_FAULTS");
  std::istringstream items(text == nullptr ? "" : text);
  for (std::string item; std::getline(items, item, ',');) {
    const size_t first = item.find(':'), second = item.find(':', first + 1);
    if (second == std::string::npos) {
      say("EDGEMETA_EMULATED_FAULTS: expected name:nth:result, found \"" + item + "\"");
      std::abort();
    }
    const long nth = std::atol(item.c_str() + first + 1);
    faults[plain(item.substr(0, first))][nth] = CUresult(std::atoi(item.c_str() + second + 1));
  }
}

CUresult Driver::next_fault(const std::string &name) {
  const long number = ++calls[plain(name)];
  const auto wanted = faults.find(plain(name));
  if (wanted == faults.end() || wanted->second.count(number) == 0) return kSuccess;
  return wanted->second[number];
}

void say(const std::string &message) {
  std::fprintf(stderr, "edgemeta's emulated CUDA driver: %s\n", message.c_str());
}

CUresult drain(Context &context, Stream &stream) {
  while (!stream.pending.empty() && context.failure == kSuccess) {
    const Operation operation = std::move(stream.pending.front());
    stream.pending.pop_front();
    context.failure = operation();
  }
  return context.failure;
}

CUresult drain_blocking(Context &context) {
  for (const auto &each : context.streams)
    if (each.second->is_blocking) drain(context, *each.second);
  return context.failure;
}

bool breaks_a_capture(Context &context) {
  bool broken = false;
  for (const auto &each : context.streams) {
    Stream &stream = *each.second;
    if (stream.capture == nullptr || stream.capturer != std::this_thread::get_id()) continue;
    stream.is_capture_broken = broken = true;
  }
  return broken;
}

CUresult enqueue(Context &context, Stream *stream, Operation operation) {
  if (stream == nullptr) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    const CUresult before = drain_blocking(context);
    if (before == kSuccess) context.failure = operation();
    return context.failure;
  }
  if (context.streams.count(stream) == 0) return kInvalidHandle;
  if (stream->capture != nullptr)
    stream->capture->operations.push_back(std::move(operation));
  else
    stream->pending.push_back(std::move(operation));
  return kSuccess;
}

Memory *find(Context &context, CUdeviceptr address, size_t bytes) {
  auto after = context.device_memory.upper_bound(address);
  if (after == context.device_memory.begin()) return nullptr;
  Memory &memory = std::prev(after)->second;
  return memory.holds(reinterpret_cast<void *>(address), bytes) ? &memory : nullptr;
}

// Number of live objects of a kind in all contexts: contexts, modules, streams, events, graphs, allocations,
// device_bytes, host_allocations, host_bytes; -1 for an unknown name.
extern "C" __attribute__((visibility("default"))) long emu_live(const char *kind) {
  const std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (std::strcmp(kind, "contexts") == 0) return long(driver.contexts.size());
  long total = 0;
  for (const auto &each : driver.contexts) {
    const Context &context = *each.first;
    const std::map<std::string, long> counts = {
        {"modules", long(context.modules.size())},
        {"streams", long(context.streams.size())},
        {"events", long(context.events.size())},
        {"graphs", long(context.graphs.size())},
        {"allocations", long(context.device_memory.size())},
        {"device_bytes", size_of(context.device_memory)},
        {"host_allocations", long(context.host_memory.size())},
        {"host_bytes", size_of(context.host_memory)},
    };
    const auto found = counts.find(kind);
    if (found == counts.end()) return -1;
    total += found->second;
  }
  return total;
}

// Makes the nth call from now of a function fail.
extern "C" __attribute__((visibility("default"))) void emu_fail(const char *name, long nth, int result) {
  const std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  driver.faults[plain(name)][driver.calls[plain(name)] + nth] = CUresult(result);
}

// Removes the faults that are still pending.
extern "C" __attribute__((visibility("default"))) void emu_forget() {
  const std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  driver.faults.clear();
}

// Replaces the machine's devices: `count` of them, of one compute capability.
extern "C" __attribute__((visibility("default"))) void emu_set_device(int count, int major, int minor) {
  const std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  driver.devices = count;
  driver.architecture = 100 * major + 10 * minor;
}

// Number of calls of a function so far.
extern "C" __attribute__((visibility("default"))) long emu_calls(const char *name) {
  const std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  return driver.calls[plain(name)];
}
