// Matrix instructions of a warp: D[16][8] += A[16][K] * B[K][8] of 8-bit or 4-bit integers, wrapping int32 (PTX manual,
// mma.m16n8k16 and m16n8k32 of 8 bits, m16n8k32 and m16n8k64 of 4 bits). A register holds E = 32 / BITS elements, the
// first one lowest. With row = lane / 4 and quad = lane % 4, a lane gives, from E quad on,
//   a0: E of A[row], a1: E of A[row + 8], a2, a3: the same 4 E columns further; b0, b1: E of B's column row, 4 E apart
// and has d[0..1] = D[row][2 quad + 0..1], d[2..3] = D[row + 8][2 quad + 0..1]. A is signed or unsigned, B is signed.
#pragma once
#include "include/device.cuh"

#define MATRIX_LONG(depth, kind)                                        \
  asm("mma.sync.aligned.m16n8k" depth ".row.col.s32." kind ".s32 "      \
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                  \
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1))
#define MATRIX_SHORT(depth, kind)                                  \
  asm("mma.sync.aligned.m16n8k" depth ".row.col.s32." kind ".s32 " \
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"        \
      : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])             \
      : "r"(a0), "r"(a1), "r"(b0))

// K = 8 E.
template <int BITS, bool SIGNED>
__device__ __forceinline__ void multiply_long(int (&d)[4], int a0, int a1, int a2, int a3, int b0, int b1) {
#ifdef EDGEMETA_EMULATION
  const unsigned a[4] = {(unsigned)a0, (unsigned)a1, (unsigned)a2, (unsigned)a3}, b[2] = {(unsigned)b0, (unsigned)b1};
  emulation::multiply_matrices<BITS, SIGNED>(d, a, b);
#elif __CUDA_ARCH__ >= 800
  if (BITS == 4 && SIGNED)
    MATRIX_LONG("64", "s4.s4");
  else if (BITS == 4)
    MATRIX_LONG("64", "u4.s4");
  else if (SIGNED)
    MATRIX_LONG("32", "s8.s8");
  else
    MATRIX_LONG("32", "u8.s8");
#endif
}

// K = 4 E.
template <int BITS, bool SIGNED>
__device__ __forceinline__ void multiply_short(int (&d)[4], int a0, int a1, int b0) {
#ifdef EDGEMETA_EMULATION
  const unsigned a[2] = {(unsigned)a0, (unsigned)a1}, b[1] = {(unsigned)b0};
  emulation::multiply_matrices<BITS, SIGNED>(d, a, b);
#elif __CUDA_ARCH__ >= 800
  if (BITS == 4 && SIGNED)
    MATRIX_SHORT("32", "s4.s4");
  else if (BITS == 4)
    MATRIX_SHORT("32", "u4.s4");
  else if (SIGNED)
    MATRIX_SHORT("16", "s8.s8");
  else
    MATRIX_SHORT("16", "u8.s8");
#endif
}
#undef MATRIX_SHORT
#undef MATRIX_LONG
