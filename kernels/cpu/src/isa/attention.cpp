// Layers of attention: products of two tensors, softmax, normalization. Loops that compilers vectorize.
#include "finish.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int64_t kSoftmaxHalf = 1 << 7;  // half of a unit of Softmax::multiplier

// Bytes less their zero point, and zeros up to `padded`.
inline void widen(const uint8_t* from, int32_t zero, int32_t count, int32_t padded, int16_t* to) {
  for (int32_t i = 0; i < count; ++i) to[i] = static_cast<int16_t>(static_cast<Byte>(from[i]) - zero);
  for (int32_t i = count; i < padded; ++i) to[i] = 0;
}

inline int32_t dot(const int16_t* __restrict a, const int16_t* __restrict b, int32_t count) {
  int32_t sum = 0;
  for (int32_t i = 0; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// The second operand as int16 [heads][results of a head][terms], the terms of a sum beside each other.
void arrange(const MatMul& op, const uint8_t* arena, int16_t* to) {
  const View& b = op.b;
  int32_t position = 0;
  for (int32_t y = 0; y < b.height; ++y) {
    for (int32_t x = 0; x < b.width; ++x, ++position) {
      const uint8_t* pixel = arena + b.at(y, x);
      for (int32_t h = 0; h < op.heads; ++h) {
        int16_t* head = to + int64_t{h} * op.results * op.padded;
        if (op.transposed) {
          widen(pixel + h * op.terms, b.zero, op.terms, op.padded, head + int64_t{position} * op.padded);
        } else {
          const uint8_t* from = pixel + h * op.results;
          for (int32_t d = 0; d < op.results; ++d)
            head[int64_t{d} * op.padded + position] = static_cast<int16_t>(static_cast<Byte>(from[d]) - b.zero);
        }
      }
    }
  }
  if (op.transposed) return;
  for (int64_t row = 0; row < int64_t{op.heads} * op.results; ++row)
    for (int32_t i = op.terms; i < op.padded; ++i) to[row * op.padded + i] = 0;
}

inline int32_t sums_of(const MatMul& op) { return op.out.blocks() * kBlock; }

}  // namespace

size_t matmul_scratch(const MatMul& op) {
  return (int64_t{op.heads} * op.results + 1) * op.padded * sizeof(int16_t) + sums_of(op) * sizeof(int32_t);
}

void matmul(const MatMul& op, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  int32_t* sums = reinterpret_cast<int32_t*>(scratch);
  int16_t* row = reinterpret_cast<int16_t*>(sums + sums_of(op));
  int16_t* right = row + op.padded;
  arrange(op, arena, right);
  memset(sums, 0, sums_of(op) * sizeof(int32_t));
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < op.out.width; ++x) {
      const uint8_t* a = arena + op.a.at(y, x);
      uint8_t* out = arena + op.out.at(y, x);
      for (int32_t h = 0; h < op.heads; ++h) {
        widen(a + h * op.terms, op.a.zero, op.terms, op.padded, row);
        const int16_t* head = right + int64_t{h} * op.results * op.padded;
        for (int32_t n = 0; n < op.results; ++n)
          sums[h * op.results + n] = dot(row, head + int64_t{n} * op.padded, op.padded);
      }
      for (int32_t block = 0; block < op.out.blocks(); ++block)
        finish_one(op.requantize, block, load(sums + block * kBlock), out + block * kBlock);
    }
  }
}

// No result is below the zero point. Numerators are below 2**53, so that float64 gives their quotients rounded down
// exactly.
void softmax(const Softmax& op, uint8_t* arena, int32_t first, int32_t last) {
  const int32_t channels = op.out.channels / op.groups;
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < op.out.width; ++x) {
      const uint8_t* in = arena + op.in.at(y, x);
      uint8_t* out = arena + op.out.at(y, x);
      for (int32_t g = 0; g < op.groups; ++g, in += channels, out += channels) {
        int32_t greatest = static_cast<Byte>(in[0]);
        for (int32_t c = 1; c < channels; ++c) greatest = greater(greatest, static_cast<Byte>(in[c]));
        int64_t sum = 0;
        for (int32_t c = 0; c < channels; ++c) sum += op.exponentials[greatest - static_cast<Byte>(in[c])];
        const double half = static_cast<double>(sum * kSoftmaxHalf), whole = 2 * half;
        for (int32_t c = 0; c < channels; ++c) {
          const int64_t power = op.exponentials[greatest - static_cast<Byte>(in[c])];
          const double quotient = (static_cast<double>(power * op.multiplier) + half) / whole;
          const int32_t wanted = op.hi - op.out.zero;
          const int32_t level = quotient < wanted ? static_cast<int32_t>(quotient) : wanted;
          out[c] = static_cast<uint8_t>(level + op.out.zero);
        }
      }
    }
  }
}

namespace {

struct Moments {
  int64_t total = 0, squares = 0;
};

// Of library integers less the zero point, which changes neither the deviation nor the difference from the mean.
inline void add_moments(const uint8_t* in, int32_t zero, int32_t channels, Moments& moments) {
  int32_t total = 0;
  int64_t squares = 0;
  for (int32_t begin = 0; begin < channels; begin += 1 << 14) {
    const int32_t end = smaller(channels, begin + (1 << 14));
    int32_t part = 0;
    for (int32_t c = begin; c < end; ++c) {
      const int32_t away = static_cast<Byte>(in[c]) - zero;
      total += away;
      part += away * away;
    }
    squares += part;
  }
  moments.total += total;
  moments.squares += squares;
}

struct Scaling {
  int64_t root, half;
  int32_t shift;
};

inline Scaling scaling_of(const Moments& moments, int64_t count, int64_t epsilon) {
  const int64_t squares = count * moments.squares - moments.total * moments.total + epsilon;
  const int32_t half = (63 - __builtin_clzll(static_cast<uint64_t>(squares))) / 2;
  const int64_t scaled = half >= 15 ? squares >> (2 * half - 30) : squares << (30 - 2 * half);
  const int64_t root = static_cast<int64_t>(__builtin_sqrt(static_cast<double>((int64_t{1} << 62) / scaled)));
  return {root, int64_t{1} << (half + 1), half + 2};
}

void normalize_pixel(const Normalize& op, const uint8_t* in, uint8_t* out, const Moments& moments, int64_t count,
                     const Scaling& by) {
  const int32_t channels = op.out.channels;
  for (int32_t block = 0; block < op.out.blocks(); ++block) {
    int32_t sums[kBlock] = {};
    const int32_t begin = block * kBlock, present = smaller(kBlock, channels - begin);
    for (int32_t i = 0; i < present; ++i) {
      const int64_t away = count * (static_cast<Byte>(in[begin + i]) - op.in.zero) - moments.total;
      const auto normal = static_cast<int32_t>((away * by.root + by.half) >> by.shift);
      sums[i] = normal * op.factors[begin + i] + op.bias[begin + i];
    }
    finish_one(op.requantize, block, load(sums), out + begin);
  }
}

}  // namespace

void normalize(const Normalize& op, uint8_t* arena, int32_t first, int32_t last) {
  const View& in = op.in;
  Moments whole;
  const int64_t count = op.whole ? int64_t{in.height} * in.width * in.channels : in.channels;
  if (op.whole)
    for (int32_t y = 0; y < in.height; ++y)
      for (int32_t x = 0; x < in.width; ++x) add_moments(arena + in.at(y, x), in.zero, in.channels, whole);
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < in.width; ++x) {
      const uint8_t* pixel = arena + in.at(y, x);
      Moments moments = whole;
      if (!op.whole) add_moments(pixel, in.zero, in.channels, moments);
      normalize_pixel(op, pixel, arena + op.out.at(y, x), moments, count, scaling_of(moments, count, op.epsilon));
    }
  }
}

void fill(const Fill& op, uint8_t* arena, int32_t first, int32_t last) {
  const size_t channels = static_cast<size_t>(op.out.channels);
  for (int32_t y = first; y < last; ++y)
    for (int32_t x = 0; x < op.out.width; ++x)
      memcpy(arena + op.out.at(y, x), op.values + (size_t(y) * op.out.width + x) * channels, channels);
}

}  // namespace edgemeta::EM_NAMESPACE
