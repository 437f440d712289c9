// Matrix instructions on 8-bit and 4-bit integers: every lane gives its fragments and computes its own elements of
// D = A x B + D, wrapping int32. Layouts: PTX manual, matrix fragments for mma.m8n8k16, m16n8k16 and m16n8k32 with
// 8-bit types, m8n8k32, m16n8k32 and m16n8k64 with 4-bit types. With group = lane / 4, quad = lane % 4 and
// E = 32 / Bits, element i of register r is
//   A: row group + 8 * (r & 1), column E * quad + i + 4 E * (r / 2)      B: row E * quad + i + 4 E * r, column group
//   D: row group + 8 * (r / 2), column 2 * quad + (r & 1)
#pragma once

namespace emulation {

template <int A, int B>
struct Fragments {
  unsigned a[A], b[B];
};

// Element i of a register of 32 / Bits integers. (Names of capitals may be a kernel's definitions.)
template <int Bits, bool Signed>
inline int element(unsigned word, int i) {
  const unsigned first = word << (32 - Bits * (i + 1));  // its bits are the highest
  return Signed ? int(first) >> (32 - Bits) : int(first >> (32 - Bits));
}

// A's elements are signed or not, B's are signed.
template <int Bits, bool Signed, int A, int B, int D>
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
        for (int i = 0; i < 32 / Bits; ++i)
          d[r] = int(unsigned(d[r]) + unsigned(element<Bits, Signed>(left, i) * element<Bits, true>(right, i)));
      }
  }
}

}  // namespace emulation
