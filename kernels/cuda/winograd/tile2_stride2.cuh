// The transforms of F(2x2, 3x3) at stride 2 along one line of a tile: the even entries transformed by F(2, 2), the odd
// entries unchanged.
// Included once for every layer of a kernel.

// B^T times a line. `offset` is added to every result.
__device__ __forceinline__ void transform_line(unsigned (&d)[5], unsigned offset) {
  const unsigned first = d[0] - d[2] + offset, middle = d[2] + offset, last = d[4] - d[2] + offset;
  const unsigned odd1 = d[1] + offset, odd3 = d[3] + offset;
  d[0] = first;
  d[1] = middle;
  d[2] = last;
  d[3] = odd1;
  d[4] = odd3;
}

// A^T times a line of products, of which the first two entries hold the result.
__device__ __forceinline__ void inverse_line(unsigned (&m)[5]) {
  m[0] = m[0] + m[1] + m[3];
  m[1] = m[1] + m[2] + m[4];
}
