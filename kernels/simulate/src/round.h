// Kernels of one instruction set, and what they are given.
#pragma once

#include <stdint.h>

#include "edgemeta_simulate.h"

#define INLINE __attribute__((always_inline)) inline

namespace edgemeta::simulate {

constexpr int64_t kBlock = 1024;  // elements that a kernel takes at a time, at most

// A run of elements. words: a random word each, for stochastic rounding. inside: a bit each, 1 where it was not
// limited, the first in bit 0 of the first byte; may be null. words has room for a multiple of 64.
struct Run {
  const float* x;
  float* y;
  uint8_t* inside;
  const uint32_t* words;
  int64_t count;
};

// scale, lowest, highest: one entry for all elements, or (`each`) one for each, with room for a multiple of 64. scale:
// null for 1.
struct Rule {
  em_rounding rounding;
  const float *scale, *lowest, *highest;
  bool each;
};

// What random words depend on, beside their place.
struct Random {
  uint64_t seed;
  uint32_t step, tensor;
};

// Integers that a row may be rounded to: scale and limits of each of `count` choices.
struct Candidates {
  const float *scale, *lowest, *highest;
  int64_t count;
};

struct Kernels {
  void (*round)(const Run&, const Rule&);
  // 64 words for each of up to kBlock / 64 blocks: those of the places 64 block .. 64 (block + blocks) - 1.
  void (*random)(const Random&, uint64_t block, int64_t blocks, uint32_t* words);
  void (*keep)(const float* x, float* y, const uint8_t* inside, int64_t count);
  void (*range)(const float* x, int64_t count, float* range);
  void (*errors)(const float* x, int64_t count, const Candidates&, double* errors);
};

namespace portable {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}

}  // namespace edgemeta::simulate
