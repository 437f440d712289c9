// Input images from camera frames: a block makes PIXELS pixels of a row; image n is blockIdx.z (README.md).
#include "preprocess/body.cuh"

extern "C" __global__ void __launch_bounds__(THREADS, 8)
    preprocess(const unsigned char* __restrict__ frames, const int4* __restrict__ geometries,
               const int4* __restrict__ spans, const unsigned char* __restrict__ table,
               unsigned char* __restrict__ output) {
  __shared__ preprocessing::Scratch scratch;
  const int image = (int)blockIdx.z;
  preprocessing::preprocess(frames, geometries, spans, table,
                            output + (unsigned long long)image * (HEIGHT * WIDTH * CHANNELS), image, (int)blockIdx.x,
                            (int)blockIdx.y, scratch);
}
