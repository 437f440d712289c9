// The transforms of F(2x2, 3x3) along one line of a tile.
// Included once for every layer of a kernel.

// B^T times a line. `offset` is added to every result.
__device__ __forceinline__ void transform_line(unsigned (&d)[4], unsigned offset) {
  const unsigned first = d[0] - d[2] + offset;
  const unsigned sum = d[1] + d[2] + offset;
  const unsigned difference = d[2] - d[1] + offset;
  d[3] = d[1] - d[3] + offset;
  d[0] = first;
  d[1] = sum;
  d[2] = difference;
}

// A^T times a line of products, of which the first two entries hold the result.
__device__ __forceinline__ void inverse_line(unsigned (&m)[4]) {
  const unsigned first = m[0] + m[1] + m[2];
  m[1] = m[1] - m[2] - m[3];
  m[0] = first;
}
