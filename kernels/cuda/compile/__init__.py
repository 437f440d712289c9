"""From kernel sources to machine code: nvcc, NVRTC, the cache of compiled kernels."""
