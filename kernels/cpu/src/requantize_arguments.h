// Arguments of requantization at run time, as plain data.
#pragma once

#include <stdint.h>

namespace edgemeta {

// Conversion of sixteen accumulators to sixteen bytes; each block of channels uses its fastest method proved equal.
enum class Method : uint8_t {
  raw,              // stored as int32
  line,             // float32 multiply-adds, proved equal to the multiplier for every int32 (not NEON)
  multiplier,       // int64 product and shift; the result fits int32
  wide_multiplier,  // int64 product and shift, lane by lane
  shifted_line,     // rounding shift, clamp, then a line proved equal to the table (AVX2 and AVX-512)
  rounded_line,     // the low bits cleared, then that line: the bias holds the half, and the line is right beyond the
                    // table's ends as far as accumulators reach (not NEON)
  high_product,     // the multiplier by the high half of a product and a rounding shift (NEON only)
  integer_line,     // shift, then a line in int32 that equals the table (NEON only)
  table,            // shift, then the table
};

constexpr int kLineShift = 20;  // fraction bits of an integer line

// The fast methods that kernels have beside those for all: lines in float32, whose outer multiply-add is rounded down
// to an integer (AVX-512), or to float32 and then to the nearest integer (AVX2), or whose every product and sum is
// rounded to float32, the last sum then down to an integer (portable); integer methods (NEON).
enum class Lines : uint8_t { none, down, nearest, stepwise, integers };

// Arrays are padded to whole blocks.
struct Requantize {
  const Method* method;                      // [blocks]
  // line: zero + acc * (scale + scale_rest) + offset, see Lines; shifted_line: zero + t * scale + offset, t the table's
  // index; rounded_line: zero + (acc & kept) * scale + offset
  const float *scale, *scale_rest, *offset;
  const int32_t* multiplier;
  const int64_t *half, *shift;  // per block: eight even lanes, then eight odd ones
  const int32_t *table_shift, *kept;
  const uint8_t* table;  // [channels][256]
  const int32_t *high_multiplier, *high_shift;  // high_product: the shift after the high half, 1 .. 31
  const int32_t *slope, *start;                 // integer_line: (t * slope + start) >> kLineShift
  const int32_t* sign;                          // raw: -1 where the accumulator's complement is the result, else 0
  int32_t zero, lo, hi;
};

// y = clamp(zero + ((a * multiplier_a + b * multiplier_b + constant) >> shift), lo, hi)
struct Sum {
  int32_t multiplier_a, multiplier_b, constant, shift, zero, lo, hi;
};

}  // namespace edgemeta
