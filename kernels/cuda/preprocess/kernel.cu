// Input images from camera frames: a block makes PIXELS pixels of a row of an image (README.md).
#include "preprocess/body.cuh"

__device__ __forceinline__ void compute(const Block& block, int4* shared, const unsigned char* __restrict__ frames,
                                        const int4* __restrict__ geometries, const int4* __restrict__ spans,
                                        const unsigned char* __restrict__ table, unsigned char* __restrict__ output) {
  preprocessing::preprocess(frames, geometries, spans, table,
                            output + (unsigned long long)block.z * (HEIGHT * WIDTH * CHANNELS), (int)block.z,
                            (int)block.x, (int)block.y, *reinterpret_cast<preprocessing::Scratch*>(shared));
}

#ifndef NETWORK_THREADS
extern "C" __global__ void __launch_bounds__(THREADS, 8)
    preprocess(const unsigned char* __restrict__ frames, const int4* __restrict__ geometries,
               const int4* __restrict__ spans, const unsigned char* __restrict__ table,
               unsigned char* __restrict__ output) {
  DYNAMIC_SHARED(int4, shared);
  compute(current_block(), shared, frames, geometries, spans, table, output);
}
#endif
