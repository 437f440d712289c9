// int8 matrix instructions: every lane gives its fragments and computes its own elements of D = A x B + D, wrapping
// int32. Layouts: PTX manual, matrix fragments for mma.m8n8k16, m16n8k16 and m16n8k32 with 8-bit types. With group =
// lane / 4 and quad = lane % 4, byte i of register r is
//   A: row group + 8 * (r & 1), column 4 * quad + i + 16 * (r / 2)      B: row 4 * quad + i + 16 * r, column group
//   D: row group + 8 * (r / 2), column 2 * quad + (r & 1)
#pragma once

namespace emulation {

template <int A, int B>
struct Fragments {
  unsigned a[A], b[B];
};

template <class Element, int A, int B, int D>
inline void multiply_matrices(int (&d)[D], const unsigned (&a)[A], const unsigned (&b)[B]) {
  static_assert(D == 2 * (A > 1 ? 2 : 1) && B == (A > 2 ? 2 : 1), "a shape that the hardware has");
  Fragments<A, B> mine, all[32];
  for (int r = 0; r < A; ++r) mine.a[r] = a[r];
  for (int r = 0; r < B; ++r) mine.b[r] = b[r];
  warp_exchange(mine, all);
  const unsigned group = lane() / 4, quad = lane() % 4;
  for (int r = 0; r < D; ++r) {
    const unsigned row = group, column = 2 * quad + unsigned(r & 1);  // the 8 rows below are in odd registers of A
    for (int k = 0; k < B; ++k)
      for (unsigned q = 0; q < 4; ++q) {
        const unsigned left = all[4 * row + q].a[2 * k + r / 2], right = all[4 * column + q].b[k];
        d[r] = dot4<Element, signed char>(left, right, d[r]);
      }
  }
}

// A: int8 (s8) or uint8 (u8), B: int8.
static inline void mma_m8n8k16_s8(int (&d)[2], unsigned a, unsigned b) {
  multiply_matrices<signed char>(d, {a}, {b});
}
static inline void mma_m8n8k16_u8(int (&d)[2], unsigned a, unsigned b) {
  multiply_matrices<unsigned char>(d, {a}, {b});
}
static inline void mma_m16n8k16_s8(int (&d)[4], const unsigned (&a)[2], unsigned b) {
  multiply_matrices<signed char>(d, a, {b});
}
static inline void mma_m16n8k16_u8(int (&d)[4], const unsigned (&a)[2], unsigned b) {
  multiply_matrices<unsigned char>(d, a, {b});
}
static inline void mma_m16n8k32_s8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  multiply_matrices<signed char>(d, a, b);
}
static inline void mma_m16n8k32_u8(int (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  multiply_matrices<unsigned char>(d, a, b);
}

}  // namespace emulation
