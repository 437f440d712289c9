// Layers of attention: softmax, normalization, constants. Loops that compilers vectorize.
#include "finish.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int64_t kSoftmaxHalf = 1 << 7;  // half of a unit of Softmax::multiplier

constexpr int32_t kPowers = 1024;  // entries of a softmax's table that are kept between its two passes

// Levels of some elements of a group, from their powers: x = power * multiplier / (2**8 sum) + 1/2, rounded down. As
// computed it is off by less than kAbove: by 2**-44 for the two factors, below 256 = hi's most, and 2**-45 for the sum.
// x is a multiple of 1 / (2**9 sum), and kAbove more never reaches the next one while that is at least 2 kAbove.
constexpr double kAbove = 0x1p-44 + 0x1p-45;
constexpr int64_t kMostSum = int64_t{1} << 33;

inline void store_levels(const Softmax& op, const int32_t* powers, int32_t count, int64_t sum, uint8_t* out) {
  const int32_t wanted = op.hi - op.out.zero, zero = op.out.zero;
  if (sum > kMostSum) {
    for (int32_t c = 0; c < count; ++c) {
      const int64_t level = (powers[c] * op.multiplier + sum * kSoftmaxHalf) / (2 * sum * kSoftmaxHalf);
      out[c] = static_cast<uint8_t>((level < wanted ? static_cast<int32_t>(level) : wanted) + zero);
    }
    return;
  }
  const double factor = static_cast<double>(op.multiplier) / static_cast<double>(2 * sum * kSoftmaxHalf);
  const double start = 0.5 + kAbove, most = wanted + 0.5;
  for (int32_t c = 0; c < count; ++c) {
    const double level = powers[c] * factor + start;
    out[c] = static_cast<uint8_t>(static_cast<int32_t>(level < most ? level : most) + zero);
  }
}

inline int64_t load_powers(const Softmax& op, const uint8_t* in, int32_t greatest, int32_t count, int32_t* powers) {
  uint32_t sum = 0;
  for (int32_t c = 0; c < count; ++c) {
    powers[c] = op.exponentials[greatest - static_cast<Byte>(in[c])];
    sum += static_cast<uint32_t>(powers[c]);
  }
  return sum;
}

inline int32_t greatest_of(const uint8_t* in, int32_t count) {
  Byte greatest = static_cast<Byte>(in[0]);
  for (int32_t c = 1; c < count; ++c) {
    const Byte x = static_cast<Byte>(in[c]);
    greatest = x > greatest ? x : greatest;
  }
  return greatest;
}

}  // namespace

// No result is below the zero point.
void softmax(const Softmax& op, uint8_t* arena, int32_t first, int32_t last) {
  const int32_t channels = op.out.channels / op.groups;
  int32_t powers[kPowers];
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < op.out.width; ++x) {
      const uint8_t* in = arena + op.in.at(y, x);
      uint8_t* out = arena + op.out.at(y, x);
      for (int32_t g = 0; g < op.groups; ++g, in += channels, out += channels) {
        const int32_t greatest = greatest_of(in, channels);
        int64_t sum = 0;
        for (int32_t c = 0; c < channels; c += kPowers)
          sum += load_powers(op, in + c, greatest, smaller(kPowers, channels - c), powers);
        for (int32_t c = 0; c < channels; c += kPowers) {
          const int32_t count = smaller(kPowers, channels - c);
          if (channels > kPowers) load_powers(op, in + c, greatest, count, powers);
          store_levels(op, powers, count, sum, out + c);
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

constexpr int32_t kPixels = 16;  // that are normalized at a time

// By what the elements of some pixels are scaled; numbers of 64 bits for each lane.
struct Scalings {
  int32_t root[kPixels], total[kPixels];
  alignas(64) int64_t half[kPixels][kBlock], shift[kPixels][kBlock];

  void set(int32_t p, const Moments& moments, int64_t count, int64_t epsilon) {
    const int64_t squares = count * moments.squares - moments.total * moments.total + epsilon;
    const int32_t by = (63 - __builtin_clzll(static_cast<uint64_t>(squares))) / 2;
    const int64_t scaled = by >= 15 ? squares >> (2 * by - 30) : squares << (30 - 2 * by);
    root[p] = static_cast<int32_t>(__builtin_sqrt(static_cast<double>((int64_t{1} << 62) / scaled)));
    total[p] = static_cast<int32_t>(moments.total);
    for (int i = 0; i < kBlock; ++i) {
      half[p][i] = int64_t{1} << (by + 1);
      shift[p][i] = by + 2;
    }
  }
};

// Elements are N times an integer less the total, which fits int32 as N is at most 2**20.
void normalize_pixels(const Normalize& op, const uint8_t* in, uint8_t* out, int32_t pixels, int32_t count,
                      const Scalings& by) {
  for (int32_t block = 0; block < op.out.blocks(); ++block)
    with_stored_method(op.requantize, block, [&](const auto& finish, const auto& range) INLINE {
      const I32x16 factors = load(op.factors + block * kBlock), bias = load(op.bias + block * kBlock);
      for (int32_t p = 0; p < pixels; ++p) {
        const I32x16 x = load_bytes(in + int64_t{p} * op.in.pixel + block * kBlock) - splat(op.in.zero);
        const I32x16 away = x * splat(count) - splat(by.total[p]);
        const I32x16 normal = multiply_shift(away, splat(by.root[p]), load(by.half[p]), load(by.shift[p]));
        store_bytes(out + int64_t{p} * op.out.pixel + block * kBlock, finish(normal * factors + bias), range);
      }
    });
}

}  // namespace

void normalize(const Normalize& op, uint8_t* arena, int32_t first, int32_t last) {
  const View& in = op.in;
  Moments whole;
  const int32_t count = op.whole ? in.height * in.width * in.channels : in.channels;
  if (op.whole)
    for (int32_t y = 0; y < in.height; ++y)
      for (int32_t x = 0; x < in.width; ++x) add_moments(arena + in.at(y, x), in.zero, in.channels, whole);
  Scalings by;
  if (op.whole)
    for (int32_t p = 0; p < kPixels; ++p) by.set(p, whole, count, op.epsilon);
  for (int32_t y = first; y < last; ++y)
    for (int32_t x = 0; x < in.width; x += kPixels) {
      const int32_t pixels = smaller(kPixels, in.width - x);
      const uint8_t* from = arena + in.at(y, x);
      for (int32_t p = 0; p < pixels && !op.whole; ++p) {
        Moments moments;
        add_moments(from + int64_t{p} * in.pixel, in.zero, in.channels, moments);
        by.set(p, moments, count, op.epsilon);
      }
      normalize_pixels(op, from, arena + op.out.at(y, x), pixels, count, by);
    }
}

void fill(const Fill& op, uint8_t* arena, int32_t first, int32_t last) {
  const size_t channels = static_cast<size_t>(op.out.channels);
  for (int32_t y = first; y < last; ++y)
    for (int32_t x = 0; x < op.out.width; ++x)
      memcpy(arena + op.out.at(y, x), op.values + (size_t(y) * op.out.width + x) * channels, channels);
}

}  // namespace edgemeta::EM_NAMESPACE
