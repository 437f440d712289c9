// The transforms of F(4x4, 3x3) along one line of a tile.
// Included once for every layer of a kernel.

// B^T times a line. `offset` is added to every result.
__device__ __forceinline__ void transform_line(unsigned (&d)[6], unsigned offset) {
  const unsigned even = d[4] - d[2] + offset, odd = d[3] - d[1];
  const unsigned even4 = d[4] - 4 * d[2], odd4 = d[3] - 4 * d[1];
  d[0] = 4 * (d[0] - d[2]) + even;
  d[5] = (d[5] - d[3] + offset) - 4 * odd;
  d[1] = even4 + odd4 + offset;
  d[2] = even4 - odd4 + offset;
  d[3] = even + 2 * odd;
  d[4] = even - 2 * odd;
}

// A^T times a line of products, of which the first four entries hold the result.
__device__ __forceinline__ void inverse_line(unsigned (&m)[6]) {
  const unsigned sum1 = m[1] + m[2], difference1 = m[1] - m[2];
  const unsigned sum2 = m[3] + m[4], difference2 = m[3] - m[4];
  m[0] = m[0] + sum1 + sum2;
  m[1] = difference1 + 2 * difference2;
  m[2] = sum1 + 4 * sum2;
  m[3] = difference1 + 8 * difference2 + 4 * m[5];
}
