// C interface of the simulator's library: float32 arrays are rounded to the grids of number formats.
//
// The definition is toolchain/simulate/definition.py with toolchain/number_formats (grid.py, rounding.py); every
// instruction set and number of threads gives its bits. The caller checks sizes; nothing fails but the choice of an
// instruction set.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EM_SIMULATE_VERSION = 3 };

// Instruction sets, slowest first. EM_SIMULATE_AUTO selects the fastest that this machine supports.
enum { EM_SIMULATE_AUTO = 0, EM_SIMULATE_PORTABLE = 1, EM_SIMULATE_AVX2 = 2, EM_SIMULATE_AVX512 = 3 };

enum { EM_NEAREST_EVEN = 0, EM_HALF_UP = 1, EM_TOWARDS_ZERO = 2, EM_STOCHASTIC = 3 };
enum { EM_SATURATE = 0, EM_INFINITY = 1, EM_NAN = 2 };

// A grid of multiples of a power of two: `mantissa` places below the first bit, at least 2**quantum.
typedef struct {
  int32_t mantissa, quantum, rounding, beyond;
} em_rounding;

// Where an array lies in the tensor of the whole batch, for stochastic rounding. Its rows of `row` elements are the
// rows first, first + stride, first + 2 stride ... of it.
typedef struct {
  uint64_t seed;
  uint32_t step, tensor;
  int64_t row, first, stride;
} em_places;

// [outer][channels][inner] elements. An element is divided by its scale, rounded, limited and multiplied by its scale.
// scale: of channel c scale[c]; null for 1. Limits of channel c: lowest[c] .. highest[c]. With block > 0, `block`
// channels side by side share a scale: scale [outer][blocks][inner], the last block may be smaller; limits are those of
// entry 0.
typedef struct {
  int64_t outer, channels, inner, block;
  const float *scale, *lowest, *highest;
} em_scaled;

int32_t em_simulate_version(void);

// The fastest instruction set that this machine supports.
int32_t em_simulate_best_isa(void);

// y = x rounded; may be done in place. inside: a bit per element, 1 where it was not limited, eight to a byte, the
// first in bit 0; or null. places: only for EM_STOCHASTIC. Returns 0, or -1 for an instruction set that the machine
// lacks.
int32_t em_simulate_round(int32_t isa, int32_t threads, const float* x, float* y, uint8_t* inside,
                          const em_scaled* scaled, const em_rounding* rounding, const em_places* places);

// y = x where the bit of `inside` is set, else 0; may be done in place.
int32_t em_simulate_keep(int32_t isa, int32_t threads, const float* x, float* y, const uint8_t* inside, int64_t count);

// range[0], range[1]: least and greatest finite element; both 0 if there is none.
int32_t em_simulate_range(int32_t isa, int32_t threads, const float* x, int64_t count, float* range);

// counts[bin], of 32768: the finite elements whose pattern's upper 15 bits are the bin's, in the order of their values,
// negative ones first. The same on every instruction set.
void em_simulate_histogram(int32_t threads, const float* x, int64_t count, int64_t* counts);

// errors[row][j], of x [rows][count] finite elements: the sum of (y - x)**2 over a row, where y is x rounded to the
// nearest integer times scale[row][j], ties to even, within the integers lowest[row][j] <= 0 .. highest[row][j] >= 0,
// of magnitude below 2**22. Returns 0, or -1 for an instruction set that the machine lacks.
int32_t em_simulate_errors(int32_t isa, int32_t threads, const float* x, int64_t rows, int64_t count,
                           int64_t candidates, const float* scale, const float* lowest, const float* highest,
                           double* errors);

#ifdef __cplusplus
}
#endif
