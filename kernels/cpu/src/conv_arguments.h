// Arguments of convolutions at run time, as plain data.
#pragma once

#include <stdint.h>

#include "requantize_arguments.h"
#include "view.h"

namespace edgemeta {

// What is left of weights that do not fit int8, of a block: its groups of 16 x 4 weights that are not all 0.
struct HighDigit {
  const int64_t* at;  // of each group, the bytes from the corner of the window to its inputs
  const int32_t* complements;  // of each group, as those of Conv, or 0
  const int8_t* weights;
  int32_t count;
};

// A convolution whose weights fit the multiplier of the instruction set. A kernel row is read as `spans` runs of
// `span` bytes, `span_step` apart; the border makes every read valid.
// weights: [blocks][kernel rows][spans][span / group][16][group], int8 with group 4 (VNNI, and AVX2 where bytes are
// multiplied), int16 with group 2 (AVX2) or 1 (portable); int8 on ARM, with group 16, 4 (dotprod) or 8 (i8mm). Packed
// weights are the same ones, each block by itself. Kernels with narrow sums have their own layout, see NarrowSums.
struct Conv {
  View in, out;
  Window window;
  int64_t tap_row;  // bytes from one kernel row to the next
  int32_t spans, span, span_step;
  const void* weights;
  int32_t weight_bytes;  // 1 or 2
  int64_t block_bytes;   // of a block's weights, not packed
  int32_t packed_bits;   // of a weight in memory, 1 to 7; 0: weights are not packed
  int32_t low;           // taken off each input, by kernels for few bits
  int32_t steps;         // conv_bytes: of so many neighbouring groups of inputs a narrow sum holds the products
  int32_t sum_bytes;     // conv_bytes on ARM: of a narrow sum, 1 or 2
  // Null, or [blocks]: bit i where of an output 4 i .. 4 i + 3 two weights that are eight bytes apart in a group of
  // sixteen are both -128.
  const uint8_t* lowest_pairs;
  // Null, or for each group of four inputs what their bytes are xored with: 0xff makes ~u of u.
  const int32_t* complements;
  // The weights are sums of digits times powers of 2**digit_bits; `weights` holds the lowest ones: [blocks]
  // [high_digits], the highest first. digit_bits is 8, or 0: one digit more, which is simply added.
  const HighDigit* high;
  int32_t high_digits, digit_bits;
  const int32_t* bias;  // minus zero point times sum of weights
  Requantize requantize;
  bool has_sum;
  Sum sum;
  View other;
};

// A convolution by bit planes (isa/lowbit/planes.cpp). The element k of a window, read run by run, is bit k % 32 of
// word k / 32. conv.weights: uint32 [blocks][weight planes][words][16]; conv.low is the input's least integer.
struct Planes {
  Conv conv;
  int32_t weight_planes, input_planes;  // 1 to 8, 1 to kMostInputPlanes
  int32_t words;                        // of a plane of the window; even
  int32_t most_words;                   // so many neighbouring words are counted before the counts are widened
  const int32_t* factors;               // of each weight plane, [blocks][weight planes][16]
  // Of weights as sums of binary bases, else null: the elements of the window that have weights, [words], and what
  // their sum is multiplied by, [blocks][16].
  const uint32_t* present;
  const int32_t* of_sum;
};
constexpr int kMostInputPlanes = 4;

// One input and one output channel in each group, weights that fit the multiplier. `taps` are the offsets of the
// window's elements from its corner; each instruction set packs the weights as its kernel reads them.
struct Depthwise {
  View in, out;
  Window window;
  int64_t tap_row;     // bytes from one kernel row to the next, and from one tap of a row to the next
  int32_t tap_pixel;
  int32_t tap_count;
  const int64_t* taps;
  const void* weights;
  // With VNNI weights that do not fit int8 are sums of two that do, packed one after the other; for each block of
  // channels the kernel rows whose second ones are not all 0, bit ky, and bit 31 for all from there on. Null if all
  // fit.
  const uint32_t* rests;
  bool is_wide;  // some weights are no sums of two
  const int32_t* bias;  // as above
  Requantize requantize;
};

// Any convolution, groups and wide weights included: int32 weights, one run of at most 16 output channels at a time.
struct Run {
  int32_t input_channel, output_channel, count;
};
struct GenericConv {
  View in, out;
  Window window;
  int64_t tap_row;      // bytes from one kernel row to the next, and from one tap of a row to the next
  int32_t tap_pixel;
  int32_t depth;   // input channels of a group
  const Run* runs;
  int32_t run_count;
  const int32_t* weights;  // [runs][kernel rows][kernel columns][depth][16]
  const int32_t* bias;     // [runs][16], as above
  Requantize requantize;   // one block per run
};

}  // namespace edgemeta
