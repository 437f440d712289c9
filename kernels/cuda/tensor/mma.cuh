// int8 matrix instructions of a warp: D[16][8] += A[16][K] * B[K][8], K = 32 or 16, wrapping int32 (PTX manual,
// mma.m16n8k32 and mma.m16n8k16). With row = lane / 4 and quad = lane % 4, a lane gives, four bytes each,
//   a0: A[row][4 quad], a1: A[row + 8][4 quad], a2, a3: the same with 16 columns more; b0, b1: B[4 quad (+ 16)][row]
// and has d[0..1] = D[row][2 quad + 0..1], d[2..3] = D[row + 8][2 quad + 0..1]. A is signed or unsigned, B is signed.
#pragma once
#include "include/device.cuh"

template <bool SIGNED>
__device__ __forceinline__ void multiply_32(int (&d)[4], int a0, int a1, int a2, int a3, int b0, int b1) {
#ifdef EDGEMETA_EMULATION
  const unsigned a[4] = {(unsigned)a0, (unsigned)a1, (unsigned)a2, (unsigned)a3}, b[2] = {(unsigned)b0, (unsigned)b1};
  if (SIGNED)
    emulation::mma_m16n8k32_s8(d, a, b);
  else
    emulation::mma_m16n8k32_u8(d, a, b);
#elif __CUDA_ARCH__ >= 800
  if (SIGNED)
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
  else
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#endif
}

template <bool SIGNED>
__device__ __forceinline__ void multiply_16(int (&d)[4], int a0, int a1, int b0) {
#ifdef EDGEMETA_EMULATION
  const unsigned a[2] = {(unsigned)a0, (unsigned)a1};
  if (SIGNED)
    emulation::mma_m16n8k16_s8(d, a, (unsigned)b0);
  else
    emulation::mma_m16n8k16_u8(d, a, (unsigned)b0);
#elif __CUDA_ARCH__ >= 800
  if (SIGNED)
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a0), "r"(a1), "r"(b0));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a0), "r"(a1), "r"(b0));
#endif
}
