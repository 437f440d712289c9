// Around a product of matrices of few bits: float32 to k-bit integers by their least and greatest, and back.
#include "../table.h"

namespace edgemeta::EM_NAMESPACE {

// q = floor((x - least) * ((2**bits - 1) / (greatest - least)) + 0.5), in float32, as Kim, Hong and Shin quantize.
// Returns least and greatest in `range`; all q are 0 if both are equal.
void quantize(const float* x, int64_t count, int32_t bits, uint8_t* out, float* range) {
  float least[kBlock], greatest[kBlock];
  for (int i = 0; i < kBlock; ++i) least[i] = greatest[i] = x[0];
  const int64_t whole = count / kBlock * kBlock;
  for (int64_t at = 0; at < whole; at += kBlock)
    for (int i = 0; i < kBlock; ++i) {
      const float v = x[at + i];
      least[i] = v < least[i] ? v : least[i];
      greatest[i] = v > greatest[i] ? v : greatest[i];
    }
  for (int64_t at = whole; at < count; ++at) {
    least[0] = x[at] < least[0] ? x[at] : least[0];
    greatest[0] = x[at] > greatest[0] ? x[at] : greatest[0];
  }
  for (int i = 1; i < kBlock; ++i) {
    least[0] = least[i] < least[0] ? least[i] : least[0];
    greatest[0] = greatest[i] > greatest[0] ? greatest[i] : greatest[0];
  }
  range[0] = least[0];
  range[1] = greatest[0];
  const float low = least[0], top = static_cast<float>((1 << bits) - 1);
  const float scale = greatest[0] > low ? top / (greatest[0] - low) : 0.0f;
  for (int64_t i = 0; i < count; ++i) {
    const float q = (x[i] - low) * scale + 0.5f;
    out[i] = static_cast<uint8_t>(static_cast<int32_t>(q < top ? q : top));
  }
}

// out[r][c] = float32(sums[r][c]) * scale[c] + offset[c].
void dequantize(const int32_t* sums, int64_t rows, int32_t columns, const float* scale, const float* offset,
                float* out) {
  for (int64_t r = 0; r < rows; ++r, sums += columns, out += columns)
    for (int32_t c = 0; c < columns; ++c) out[c] = static_cast<float>(sums[c]) * scale[c] + offset[c];
}

}  // namespace edgemeta::EM_NAMESPACE
