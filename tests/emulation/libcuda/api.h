// The part of the CUDA driver API's binary interface that is emulated: handles, results and numbers as in cuda.h.
#pragma once
#include <cstddef>
#include <cstdint>

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct Context *;
using CUstream = struct Stream *;
using CUevent = struct Event *;
using CUmodule = struct Module *;
using CUfunction = struct Function *;
using CUgraph = struct Graph *;
using CUgraphExec = struct Graph *;

enum CUresult : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kEccUncorrectable = 214,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kUnknown = 999,
};

#define CUDA_API extern "C" __attribute__((visibility("default"))) CUresult

CUDA_API cuDeviceGetAttribute(int *value, int attribute, CUdevice device);
