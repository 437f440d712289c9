// Initialization, devices and contexts.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "state.h"

namespace {

constexpr int kDriverVersion = 12040;
constexpr const char *kName = "edgemeta CPU emulation (not a GPU)";

// Entry points that need no context.
template <class Body>
CUresult global_entry(const char *name, Body body) {
  const std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  const CUresult fault = driver.next_fault(name);
  if (fault != kSuccess) return fault;
  return driver.is_initialized ? body() : kNotInitialized;
}

CUresult destroy(Context *context) {
  auto &stack = current_contexts;
  stack.erase(std::remove(stack.begin(), stack.end(), context), stack.end());
  driver.contexts.erase(context);
  return kSuccess;
}

}  // namespace

CUDA_API cuInit(unsigned flags) {
  const std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  const CUresult fault = driver.next_fault(__func__);
  if (fault != kSuccess) return fault;
  if (flags != 0) return kInvalidValue;
  if (driver.devices == 0) return kNoDevice;
  driver.is_initialized = true;
  return kSuccess;
}

CUDA_API cuDriverGetVersion(int *version) {
  *version = kDriverVersion;
  return kSuccess;
}

CUDA_API cuDeviceGetCount(int *count) {
  return global_entry(__func__, [&] { return *count = driver.devices, kSuccess; });
}

CUDA_API cuDeviceGet(CUdevice *device, int ordinal) {
  return global_entry(__func__, [&] {
    if (ordinal < 0 || ordinal >= driver.devices) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
  });
}

CUDA_API cuDeviceGetName(char *name, int size, CUdevice) {
  return global_entry(__func__, [&] { return std::snprintf(name, size_t(size), "%s", kName), kSuccess; });
}

CUDA_API cuDeviceComputeCapability(int *major, int *minor, CUdevice) {
  return global_entry(__func__, [&] {
    *major = driver.architecture / 100;
    *minor = driver.architecture / 10 % 10;
    return kSuccess;
  });
}

CUDA_API cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  return global_entry(__func__, [&] { return *bytes = driver.device_bytes, kSuccess; });
}

CUDA_API cuDeviceGetPCIBusId(char *id, int size, CUdevice) {
  return global_entry(__func__, [&] { return std::snprintf(id, size_t(size), "0000:00:00.0"), kSuccess; });
}

CUDA_API cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
  return global_entry(__func__, [&] {
    const int number = driver.architecture;
    const int shared = number >= 900 ? 227 : number >= 870 ? 163 : number >= 700 ? 96 : 48;
    switch (attribute) {
      case 1: *value = 1024; break;           // threads in a block
      case 2: case 3: *value = 1024; break;   // ... in x and y
      case 4: *value = 64; break;             // ... in z
      case 5: *value = 2147483647; break;     // blocks in x
      case 6: case 7: *value = 65535; break;  // ... in y and z
      case 8: *value = 48 << 10; break;       // shared memory of a block
      case 9: *value = 64 << 10; break;       // constant memory
      case 10: *value = 32; break;            // warp
      case 12: *value = 65536; break;         // registers
      case 13: *value = 1000000; break;       // kHz
      case 16: *value = 1; break;             // multiprocessors
      case 18: *value = 1; break;             // shares memory with the host
      case 41: *value = 1; break;             // unified addresses
      case 75: *value = number / 100; break;
      case 76: *value = number / 10 % 10; break;
      case 81: case 97: *value = shared << 10; break;  // shared memory that a kernel may request
      default: *value = 0;
    }
    return kSuccess;
  });
}

CUDA_API cuCtxCreate_v2(CUcontext *result, unsigned, CUdevice device) {
  return global_entry(__func__, [&] {
    if (device < 0 || device >= driver.devices) return kInvalidDevice;
    auto context = std::make_unique<Context>();
    context->device = device;
    *result = context.get();
    current_contexts.push_back(context.get());
    driver.contexts[context.get()] = std::move(context);
    return kSuccess;
  });
}

CUDA_API cuCtxAttach(CUcontext *result, unsigned) {
  return global_entry(__func__, [&] {
    if (current_contexts.empty()) return kInvalidContext;
    *result = current_contexts.back();
    ++(*result)->uses;
    return kSuccess;
  });
}

CUDA_API cuCtxDetach(CUcontext context) {
  return global_entry(__func__, [&] {
    if (driver.contexts.count(context) == 0) return kInvalidContext;
    return --context->uses > 0 ? kSuccess : destroy(context);
  });
}

CUDA_API cuCtxDestroy_v2(CUcontext context) {
  return global_entry(__func__, [&] { return driver.contexts.count(context) ? destroy(context) : kInvalidContext; });
}

CUDA_API cuCtxPushCurrent_v2(CUcontext context) {
  return global_entry(__func__, [&] {
    if (driver.contexts.count(context) == 0) return kInvalidContext;
    current_contexts.push_back(context);
    return kSuccess;
  });
}

CUDA_API cuCtxPopCurrent_v2(CUcontext *context) {
  return global_entry(__func__, [&] {
    if (current_contexts.empty()) return kInvalidContext;
    if (context != nullptr) *context = current_contexts.back();
    current_contexts.pop_back();
    return kSuccess;
  });
}

CUDA_API cuCtxGetCurrent(CUcontext *context) {
  return global_entry(
      __func__, [&] { return *context = current_contexts.empty() ? nullptr : current_contexts.back(), kSuccess; });
}

CUDA_API cuCtxSetCurrent(CUcontext context) {
  return global_entry(__func__, [&] {
    if (context != nullptr && driver.contexts.count(context) == 0) return kInvalidContext;
    if (!current_contexts.empty()) current_contexts.pop_back();
    if (context != nullptr) current_contexts.push_back(context);
    return kSuccess;
  });
}

CUDA_API cuCtxGetDevice(CUdevice *device) {
  return entry(__func__, [&](Context &context) { return *device = context.device, kSuccess; });
}

CUDA_API cuCtxGetApiVersion(CUcontext, unsigned *version) { return *version = 3020, kSuccess; }

CUDA_API cuCtxSynchronize() {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    for (const auto &each : context.streams) drain(context, *each.second);
    return context.failure;
  });
}

CUDA_API cuGetErrorString(CUresult result, const char **text) {
  switch (int(result)) {
    case 0: *text = "no error"; break;
    case 1: *text = "invalid argument"; break;
    case 2: *text = "out of memory"; break;
    case 3: *text = "initialization error"; break;
    case 46: *text = "CUDA-capable device(s) is/are busy or unavailable"; break;
    case 100: *text = "no CUDA-capable device is detected"; break;
    case 101: *text = "invalid device ordinal"; break;
    case 200: *text = "device kernel image is invalid"; break;
    case 201: *text = "invalid device context"; break;
    case 209: *text = "no kernel image is available for execution on the device"; break;
    case 214: *text = "uncorrectable ECC error encountered"; break;
    case 400: *text = "invalid resource handle"; break;
    case 500: *text = "named symbol not found"; break;
    case 600: *text = "device not ready"; break;
    case 700: *text = "an illegal memory access was encountered"; break;
    case 716: *text = "misaligned address"; break;
    case 701: *text = "too many resources requested for launch"; break;
    case 702: *text = "the launch timed out and was terminated"; break;
    case 719: *text = "unspecified launch failure"; break;
    case 801: *text = "operation not supported"; break;
    case 900: *text = "operation not permitted when stream is capturing"; break;
    case 901: *text = "operation failed due to a previous error during capture"; break;
    case 999: *text = "unknown error"; break;
    default: *text = "unrecognized error code"; return kInvalidValue;
  }
  return kSuccess;
}
