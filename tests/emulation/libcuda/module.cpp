// Modules, which are host shared objects (tests/emulation/compiler.py), their functions, and launches.
#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "state.h"

namespace {

constexpr uint32_t kStaticShared = 48 << 10;

// Bytes of an ELF file in memory: the section headers are its end.
size_t size_of(const Elf64_Ehdr &header) { return header.e_shoff + size_t(header.e_shentsize) * header.e_shnum; }

uint32_t most_shared_bytes(CUdevice device) {
  int bytes = 0;
  cuDeviceGetAttribute(&bytes, 97, device);
  return uint32_t(bytes);
}

struct Launch {
  uint32_t grid[3], block[3];
  uint32_t shared_bytes;
  std::vector<uint64_t> values;  // parameters
};

CUresult execute(Context &context, const Function &function, const Launch &launch) {
  std::vector<void *> parameters;
  for (const uint64_t &value : launch.values) parameters.push_back(const_cast<uint64_t *>(&value));
  for (size_t i = 0; i < launch.values.size(); ++i)
    if (function.kernel->parameter_bytes[i] == sizeof(void *) && find(context, launch.values[i], 1) == nullptr) {
      say(std::string(function.kernel->name) + ": argument " + std::to_string(i) + " points to no device memory");
      return kIllegalAddress;
    }
  std::vector<std::string> names;
  std::vector<emulation::Object> objects;
  names.reserve(context.device_memory.size());
  for (const auto &each : context.device_memory) {
    names.push_back("allocation of " + std::to_string(each.second.bytes()) + " bytes");
    objects.push_back({names.back().c_str(), each.second.start(), each.second.bytes(), 1});
  }
  char error[1024] = "";
  emulation::Request request = {};
  std::memcpy(request.grid, launch.grid, sizeof request.grid);
  std::memcpy(request.block, launch.block, sizeof request.block);
  request.shared_bytes = launch.shared_bytes;
  request.object_count = uint32_t(objects.size());
  request.objects = objects.data();
  request.parameters = parameters.data();
  request.poison = 0xa5;
  request.error = error;
  request.error_bytes = sizeof error;
  if (function.launch(function.kernel, &request) != 0) {
    say(error);
    return kLaunchFailed;
  }
  for (const auto &each : context.device_memory)
    if (!each.second.is_intact()) {
      say(std::string(function.kernel->name) + " wrote outside an allocation of " +
          std::to_string(each.second.bytes()) + " bytes");
      return kIllegalAddress;
    }
  return kSuccess;
}

// The parameters' values, from pointers to them or packed one after the other, each aligned to its own size.
bool read_parameters(const emulation::Kernel &kernel, void **pointers, void **extra, std::vector<uint64_t> &values) {
  const uint8_t *packed = nullptr;
  size_t packed_bytes = 0, offset = 0;
  for (; extra != nullptr && *extra != nullptr; extra += 2) {
    if (extra[0] == reinterpret_cast<void *>(1)) packed = static_cast<const uint8_t *>(extra[1]);
    if (extra[0] == reinterpret_cast<void *>(2)) packed_bytes = *static_cast<const size_t *>(extra[1]);
  }
  for (uint32_t i = 0; i < kernel.parameter_count; ++i) {
    const size_t bytes = kernel.parameter_bytes[i];
    offset = (offset + bytes - 1) / bytes * bytes;
    if (bytes > sizeof(uint64_t) || (pointers == nullptr && offset + bytes > packed_bytes)) return false;
    uint64_t value = 0;
    std::memcpy(&value, pointers != nullptr ? pointers[i] : packed + offset, bytes);
    values.push_back(value);
    offset += bytes;
  }
  return pointers != nullptr || offset == packed_bytes;
}

}  // namespace

Module::~Module() {
  dlclose(handle);
  close(descriptor);
}

CUDA_API cuModuleLoadData(CUmodule *result, const void *image) {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    Elf64_Ehdr header;
    std::memcpy(&header, image, sizeof header);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return kInvalidImage;
    const int descriptor = memfd_create("emulated-module", 0);
    const size_t bytes = size_of(header);
    if (descriptor < 0 || write(descriptor, image, bytes) != ssize_t(bytes)) return kUnknown;
    const std::string path = "/proc/self/fd/" + std::to_string(descriptor);
    void *const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      say(std::string("the module is not an emulation module: ") + dlerror());
      close(descriptor);
      return kNoBinaryForGpu;
    }
    auto module = std::unique_ptr<Module>(new Module{handle, descriptor, {}});
    const int *const built_for = static_cast<const int *>(dlsym(handle, "emulation_architecture"));
    if (built_for == nullptr || *built_for != driver.architecture) {
      say("the module was built for another architecture");
      return kNoBinaryForGpu;
    }
    *result = module.get();
    context.modules[*result] = std::move(module);
    return kSuccess;
  });
}

CUDA_API cuModuleLoadDataEx(CUmodule *result, const void *image, unsigned, int *, void **) {
  return cuModuleLoadData(result, image);
}

CUDA_API cuModuleUnload(CUmodule module) {
  return entry(__func__, [&](Context &context) {
    if (breaks_a_capture(context)) return kCaptureUnsupported;
    if (context.modules.count(module) == 0) return kInvalidHandle;
    for (const auto &each : context.streams) drain(context, *each.second);
    context.modules.erase(module);
    return context.failure;
  });
}

CUDA_API cuModuleGetFunction(CUfunction *result, CUmodule module, const char *name) {
  return entry(__func__, [&](Context &context) {
    if (context.modules.count(module) == 0) return kInvalidHandle;
    const std::string symbol = std::string("emulation_kernel_") + name;
    void *const kernel = dlsym(module->handle, symbol.c_str());
    if (kernel == nullptr) return kNotFound;
    auto function = std::make_unique<Function>();
    function->module = module;
    function->kernel = static_cast<const emulation::Kernel *>(kernel);
    function->launch = reinterpret_cast<decltype(function->launch)>(dlsym(module->handle, "emulation_launch"));
    const auto shared = reinterpret_cast<uint32_t (*)()>(dlsym(module->handle, "emulation_static_shared_bytes"));
    function->static_shared_bytes = shared();
    function->max_dynamic_shared_bytes = kStaticShared - std::min(kStaticShared, function->static_shared_bytes);
    *result = function.get();
    module->functions.push_back(std::move(function));
    return kSuccess;
  });
}

CUDA_API cuFuncGetAttribute(int *value, int attribute, CUfunction function) {
  return entry(__func__, [&](Context &) {
    switch (attribute) {
      case 0: *value = 1024; break;                                  // threads in a block
      case 1: *value = int(function->static_shared_bytes); break;
      case 4: *value = 64; break;                                        // registers of a thread
      case 5: case 6: *value = driver.architecture / 10; break;           // of PTX and binary
      case 8: *value = int(function->max_dynamic_shared_bytes); break;
      default: *value = 0;                                           // constant and local memory
    }
    return kSuccess;
  });
}

CUDA_API cuFuncSetAttribute(CUfunction function, int attribute, int value) {
  return entry(__func__, [&](Context &context) {
    if (attribute != 8) return kInvalidValue;
    if (value < 0 || uint32_t(value) + function->static_shared_bytes > most_shared_bytes(context.device))
      return kInvalidValue;
    function->max_dynamic_shared_bytes = uint32_t(value);
    return kSuccess;
  });
}

// PyCUDA sets the block's shape before every launch, which sets it again.
CUDA_API cuFuncSetBlockShape(CUfunction, int, int, int) {
  return entry(__func__, [&](Context &) { return kSuccess; });
}

CUDA_API cuFuncSetCacheConfig(CUfunction, int) {
  return entry(__func__, [&](Context &) { return kSuccess; });
}

CUDA_API cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                        unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void **parameters,
                        void **extra) {
  return entry(__func__, [&](Context &context) {
    Launch launch = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes, {}};
    const uint64_t threads = uint64_t(block_x) * block_y * block_z;
    if (threads == 0 || threads > 1024 || block_z > 64 || grid_x == 0 || grid_y == 0 || grid_z == 0)
      return kInvalidValue;
    if (grid_y > 65535 || grid_z > 65535 || shared_bytes > function->max_dynamic_shared_bytes) return kInvalidValue;
    if (!read_parameters(*function->kernel, parameters, extra, launch.values)) return kInvalidValue;
    return enqueue(context, stream, [&context, function, launch] { return execute(context, *function, launch); });
  });
}
