// Device memory, page-locked host memory, copies and fills.
#include <algorithm>
#include <cstring>

#include "state.h"

namespace {

uint8_t *pointer(CUdeviceptr address) { return reinterpret_cast<uint8_t *>(address); }

bool is_page_locked(Context &context, const void *host, size_t bytes) {
  return std::any_of(context.host_memory.begin(), context.host_memory.end(),
                     [&](const auto &each) { return each.second.holds(host, bytes); });
}

CUresult illegal(const char *what) {
  say(std::string(what) + " accesses memory that is not allocated");
  return kIllegalAddress;
}

// Work that copies or fills memory; the memory must still be allocated when the work is executed.
Operation to_device(Context &context, CUdeviceptr to, const void *from, size_t bytes) {
  return [=, &context] {
    if (find(context, to, bytes) == nullptr) return illegal("a copy to the device");
    std::memcpy(pointer(to), from, bytes);
    return kSuccess;
  };
}
Operation to_host(Context &context, void *to, CUdeviceptr from, size_t bytes) {
  return [=, &context] {
    if (find(context, from, bytes) == nullptr) return illegal("a copy from the device");
    std::memcpy(to, pointer(from), bytes);
    return kSuccess;
  };
}
Operation on_device(Context &context, CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return [=, &context] {
    if (!find(context, to, bytes) || !find(context, from, bytes)) return illegal("a copy on the device");
    std::memmove(pointer(to), pointer(from), bytes);
    return kSuccess;
  };
}
template <class T>
Operation fill(Context &context, CUdeviceptr to, T value, size_t count) {
  return [=, &context] {
    if (find(context, to, count * sizeof(T)) == nullptr) return illegal("a fill");
    for (size_t i = 0; i < count; ++i) std::memcpy(pointer(to) + i * sizeof(T), &value, sizeof(T));
    return kSuccess;
  };
}

size_t used(const Context &context) {
  size_t total = 0;
  for (const auto &each : context.device_memory) total += each.second.bytes();
  return total;
}

}  // namespace

CUDA_API cuMemAlloc_v2(CUdeviceptr *result, size_t bytes) {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    if (bytes == 0) return kInvalidValue;
    if (bytes > driver.device_bytes - used(context)) return kOutOfMemory;
    Memory memory(bytes);
    *result = CUdeviceptr(memory.start());
    context.device_memory.emplace(*result, std::move(memory));
    return kSuccess;
  });
}

CUDA_API cuMemFree_v2(CUdeviceptr address) {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    const auto found = context.device_memory.find(address);
    if (found == context.device_memory.end()) return kInvalidValue;
    for (const auto &each : context.streams) drain(context, *each.second);
    context.device_memory.erase(found);
    return context.failure;
  });
}

CUDA_API cuMemGetInfo_v2(size_t *free, size_t *total) {
  return entry(__func__, [&](Context &context) {
    *total = driver.device_bytes;
    *free = *total - used(context);
    return kSuccess;
  });
}

CUDA_API cuMemHostAlloc(void **result, size_t bytes, unsigned) {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    Memory memory(bytes);
    *result = memory.start();
    context.host_memory.emplace(*result, std::move(memory));
    return kSuccess;
  });
}

CUDA_API cuMemFreeHost(void *address) {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    const auto found = context.host_memory.find(address);
    if (found == context.host_memory.end()) return kInvalidValue;
    for (const auto &each : context.streams) drain(context, *each.second);
    if (!found->second.is_intact()) say("a write outside page-locked memory was found");
    context.host_memory.erase(found);
    return context.failure;
  });
}

CUDA_API cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t bytes) {
  return entry(__func__, [&](Context &context) {
    return enqueue(context, nullptr, to_device(context, to, from, bytes));
  });
}

CUDA_API cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return entry(__func__, [&](Context &context) {
    return enqueue(context, nullptr, to_host(context, to, from, bytes));
  });
}

CUDA_API cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes) {
  return entry(__func__, [&](Context &context) {
    return enqueue(context, nullptr, on_device(context, to, from, bytes));
  });
}

// Pageable host memory may be reused when the call returns: it is copied at once. A graph would read it later, so a
// capture rejects it.
CUDA_API cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes, CUstream stream) {
  return entry(__func__, [&](Context &context) {
    if (is_page_locked(context, from, bytes)) return enqueue(context, stream, to_device(context, to, from, bytes));
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    const uint8_t *const first = static_cast<const uint8_t *>(from);
    const auto copy = std::make_shared<std::vector<uint8_t>>(first, first + bytes);
    const Operation operation = to_device(context, to, copy->data(), bytes);
    return enqueue(context, stream, [copy, operation] { return operation(); });
  });
}

CUDA_API cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return entry(__func__, [&](Context &context) {
    const bool waits = !is_page_locked(context, to, bytes);
    if (waits && breaks_a_capture(context)) return kCaptureUnsupported;
    const CUresult result = enqueue(context, stream, to_host(context, to, from, bytes));
    return waits && result == kSuccess && stream != nullptr ? drain(context, *stream) : result;
  });
}

CUDA_API cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return entry(__func__, [&](Context &context) {
    return enqueue(context, stream, on_device(context, to, from, bytes));
  });
}

#define EMULATION_FILL(name, type)                                                            \
  CUDA_API cuMemset##name##_v2(CUdeviceptr to, type value, size_t count) {                    \
    return entry("cuMemset" #name, [&](Context &context) {                                    \
      return enqueue(context, nullptr, fill(context, to, value, count));                      \
    });                                                                                       \
  }                                                                                           \
  CUDA_API cuMemset##name##Async(CUdeviceptr to, type value, size_t count, CUstream stream) { \
    return entry("cuMemset" #name "Async", [&](Context &context) {                            \
      return enqueue(context, stream, fill(context, to, value, count));                       \
    });                                                                                       \
  }
EMULATION_FILL(D8, uint8_t)
EMULATION_FILL(D16, uint16_t)
EMULATION_FILL(D32, uint32_t)
