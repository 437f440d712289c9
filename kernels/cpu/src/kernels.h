// Arguments of steps at run time, as plain data, and the function table of each instruction set.
//
// Inside the library every 8-bit tensor is unsigned: u = q for an unsigned tensor and u = q + 128 for a signed one,
// with the zero point shifted equally. All formulas below are on u. Kernels of ARM multiply signed bytes: there u is
// less by 128, from -128 to 127.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace edgemeta {

constexpr int kBlock = 16;     // output channels that one vector holds
constexpr int kReadAhead = 8;  // pixels after the last one that a kernel may read, and ignore

// Layout of a tensor in the arena. A pixel's channels are padded to a multiple of a block (the model's input may be
// padded to 4 instead); the border around the image always holds the zero point.
struct View {
  int32_t height, width, channels;
  int32_t pixel;   // bytes from one pixel to the next
  int64_t row;     // bytes from one row to the next
  int64_t origin;  // offset of pixel (0, 0) in the arena
  int32_t zero, lo;
  int32_t blocks() const { return (channels + kBlock - 1) / kBlock; }
  int64_t at(int64_t y, int64_t x) const { return origin + y * row + x * pixel; }
};

// Conversion of sixteen accumulators to sixteen bytes; each block of channels uses its fastest method proved equal.
enum class Method : uint8_t {
  raw,              // stored as int32
  line,             // float32 multiply-adds, proved equal to the multiplier for every int32 (AVX2 and AVX-512)
  multiplier,       // int64 product and shift; the result fits int32
  wide_multiplier,  // int64 product and shift, lane by lane
  shifted_line,     // rounding shift, clamp, then a line proved equal to the table (AVX2 and AVX-512)
  rounded_line,     // the same without rounding and clamp: the bias holds the half, and the line is right beyond the
                    // table's ends as far as accumulators reach (AVX2 and AVX-512)
  high_product,     // the multiplier by the high half of a product and a rounding shift (NEON only)
  integer_line,     // shift, then a line in int32 that equals the table (NEON only)
  table,            // shift, then the table
};

constexpr int kLineShift = 20;  // fraction bits of an integer line

// The fast methods that kernels have beside those for all: lines in float32, whose outer multiply-add is rounded down
// to an integer (AVX-512), or to float32 and then to the nearest integer (AVX2); integer methods.
enum class Lines : uint8_t { none, down, nearest, integers };

// Arrays are padded to whole blocks.
struct Requantize {
  const Method* method;                      // [blocks]
  // line: zero + acc * (scale + scale_rest) + offset, see Lines; of a table's index t: t * scale + offset
  const float *scale, *scale_rest, *offset;
  const int32_t* multiplier;
  const int64_t *half, *shift;  // per block: eight even lanes, then eight odd ones
  const int32_t* table_shift;
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

struct Window {
  int32_t height, width, stride_y, stride_x, top, left;
};

// What is left of weights that do not fit int8, of a block: its groups of 16 x 4 weights that are not all 0.
struct HighDigit {
  const int64_t* at;  // of each group, the bytes from the corner of the window to its inputs
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

// Measured times of the forms of a convolution, for 32 inputs by 16 output channels, in units of this instruction set
// (docs/low-bits.md).
struct FormCosts {
  double plain;                   // of a pixel, Kernels::conv
  double plane_pair, plane_cut;   // of a pixel and a pair of planes; of cutting a plane from 32 inputs, all channels
  double bytes, bytes_widening;   // of a pixel, conv_bytes; added for one widening after every step
  double bytes_start;             // of a pixel, conv_bytes, for all inputs
  double unpacking;               // of a part of 4, 2 or 1 bits, and once more, to int8
  double line;                    // of 64 bytes of weights that are not in the first cache
  double bytes_in_int8;           // as `bytes`, with sums in int8
  double bytes_starts;            // conv_bytes, for all pixels: finding where the sums begin
};

// How conv_bytes reads weights, [blocks][16 / outputs][kernel rows][spans][span / inputs][outputs][inputs], and how it
// sums: modulo 2**8 or 2**16 (ARM), or in int16 without reaching its ends, where it would saturate (AVX2).
struct NarrowSums {
  int32_t inputs, outputs;
  bool wraps;
};

// Kernels of convolutions for few bits.
struct LowBitKernels {
  FormCosts costs;
  bool has_digits;           // whether Kernels::conv takes weights of several digits
  bool (*can_count_bits)();         // whether the machine supports conv_planes
  void (*conv_planes)(const Planes&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);
  size_t (*conv_planes_scratch)(const Planes&);
  int32_t most_words;  // that can be counted whatever the weights; a count is one of a byte's bits, unless it is 2**26
  NarrowSums narrow;
  // Null where the instruction set has no such form.
  void (*conv_bytes)(const Conv&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);
  size_t (*conv_bytes_scratch)(const Conv&);
  // As em_quantize and em_dequantize.
  void (*quantize)(const float* x, int64_t count, int32_t bits, uint8_t* out, float* range);
  void (*dequantize)(const int32_t* sums, int64_t rows, int32_t columns, const float* scale, const float* offset,
                     float* out);
};

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
  bool has_rest;  // the weights are sums of two, which are packed one after the other (AVX-512)
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

struct Pool {
  View in, out;
  Window window;
  Requantize requantize;  // average pool only
};

// acc = u - zero, with parameters for each channel; with the same ones for all, a rescaling is a lookup.
struct Rescale {
  View in, out;
  Requantize requantize;
};

struct Addition {
  View a, b, out;
  Sum sum;
};

// y = table[x], on the library's integers; one table for all channels or one each.
struct Lookup {
  View in, out;
  const uint8_t* table;  // [1][256] or [channels][256]
  bool per_channel;
};

// acc = (a - zero) * (b - zero); b may be one pixel that all pixels of a are multiplied by.
struct Product {
  View a, b, out;
  bool one_pixel;
  Requantize requantize;
};

struct Copy {
  View in, out;
  int32_t channel;             // concat: first output channel
  int32_t factor_y, factor_x;  // upsample
};

// Pixel (y, x) of the input goes to (top + y * spacing_y, left + x * spacing_x) of the output.
struct Pad {
  View in, out;
  int32_t top, left, spacing_y, spacing_x;
};

struct Slice {
  View in, out;
  int32_t top, left, channel, step_y, step_x, step_channel;
};

struct Shuffle {
  View in, out;
  int32_t groups;
};

// As em_neighbours.
struct Neighbours {
  const int32_t *lower, *upper, *weight;
};
struct Bilinear {
  View in, out;
  Neighbours rows, columns;
};

// One axis of an area resize, as em_axis.
struct Axis {
  int32_t size;
  const int32_t *start, *count, *first, *weights;  // first: index of a pixel's first weight
  int32_t total;
};
// Outputs of a row of column sums, `outputs` words at a time. Group g reads the kReach words from begin[g] on. For each
// group and pair of its taps, `taps` has 32 places among them, two for each output, then their 32 weights.
struct Gather {
  static constexpr int32_t kReach = 64, kLanes = 16;
  int32_t outputs, groups, pairs;
  const int32_t* begin;
  const int16_t* taps;
};
struct Resize {
  Axis rows, columns;
  int32_t channels;  // of the frame, 1 or 3
  int32_t greatest_row_weight, greatest_column_weight;
  // Column weights for four pixels at a time, [w0 w1 w0 w1 w0 w1 0 0 w2 w3 w2 w3 w2 w3 0 0], padded with weights of 0.
  const int16_t* column_pairs;
  // Column weights for a group of neighbouring outputs at a time; null where a group spans more than a gather reaches.
  const Gather* gather;
};
// From the resized pixels of a frame to the integers of a tensor.
struct Colour {
  int32_t frame_channels, channels;
  int32_t colours[4];    // EM_BLUE ... of each channel of the tensor; for a gray frame, 0 or EM_ALPHA
  const uint8_t* table;  // [channels][256]
  int32_t flip;          // each table is p ^ flip; -1 if they are not
};

// Each function computes the output rows first .. last - 1 of one image. `scratch` belongs to the calling thread.
struct Kernels {
  const char* name;
  Lines lines;
  bool is_signed;        // of the library's bytes: -128 .. 127 instead of 0 .. 255
  int32_t weight_bytes;  // of a fast convolution's weight: 1 or 2
  int32_t weight_group;  // adjacent input channels in the weights of an output channel: 16, 8, 4, 2 or 1
  int32_t span_group;    // a convolution's spans are multiples of so many bytes
  void (*conv)(const Conv&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);
  size_t (*conv_scratch)(const Conv&);
  // With transformed weights (winograd.h). Null where the instruction set has no such form.
  void (*conv_winograd)(const Conv&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);
  size_t (*conv_winograd_scratch)(const Conv&);
  int32_t winograd_side;  // of its tiles of outputs: 2 or 4
  const LowBitKernels* low_bit;
  void (*depthwise)(const Depthwise&, uint8_t* arena, int32_t first, int32_t last);
  // Whether the kernel supports the window, and weights from `least` to `greatest`.
  bool (*can_depthwise)(const Depthwise&, int32_t least, int32_t greatest);
  size_t (*depthwise_bytes)(const Depthwise&);
  void (*pack_depthwise)(const Depthwise&, const int32_t* weights, uint8_t* packed);  // weights [channels][taps]
  void (*generic_conv)(const GenericConv&, uint8_t* arena, int32_t first, int32_t last);
  void (*average_pool)(const Pool&, uint8_t* arena, int32_t first, int32_t last);
  void (*max_pool)(const Pool&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);
  size_t (*max_pool_scratch)(const Pool&);
  void (*add)(const Addition&, uint8_t* arena, int32_t first, int32_t last);
  void (*rescale)(const Rescale&, uint8_t* arena, int32_t first, int32_t last);
  void (*concat)(const Copy&, uint8_t* arena, int32_t first, int32_t last);
  void (*upsample)(const Copy&, uint8_t* arena, int32_t first, int32_t last);
  // A row of an image of three channels: each byte exclusive-or `flip`.
  void (*load_pixels)(const uint8_t* image, uint8_t* row, int32_t width, uint8_t flip);
  void (*lookup)(const Lookup&, uint8_t* arena, int32_t first, int32_t last);
  void (*product)(const Product&, uint8_t* arena, int32_t first, int32_t last);
  void (*pad)(const Pad&, uint8_t* arena, int32_t first, int32_t last);
  void (*slice)(const Slice&, uint8_t* arena, int32_t first, int32_t last);
  void (*shuffle)(const Shuffle&, uint8_t* arena, int32_t first, int32_t last);
  void (*bilinear)(const Bilinear&, uint8_t* arena, int32_t first, int32_t last);
  // One output row of an area resize, [columns.size][channels] bytes; `crop` is the crop's first pixel.
  size_t (*resize_scratch)(const Resize&);
  void (*resize_row)(const Resize&, const uint8_t* crop, int64_t row_bytes, int32_t row, uint8_t* out,
                     uint8_t* scratch);
  void (*colour_row)(const Colour&, const uint8_t* pixels, int32_t width, uint8_t* out);
};

namespace portable {
extern const Kernels kernels;
}
namespace avx2 {
extern const Kernels kernels;
}
namespace avxvnni {
extern const Kernels kernels;
}
namespace avxvnni_evex {
extern const Kernels kernels;
}
namespace avx512 {
extern const Kernels kernels;
}
namespace neon {
extern const Kernels kernels;
}
namespace dotprod {
extern const Kernels kernels;
}
namespace i8mm {
extern const Kernels kernels;
}

}  // namespace edgemeta
