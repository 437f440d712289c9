// C interface of the CPU library: a network is described layer by layer, sealed once, then run.
//
// Integers are those of the model file (model/layers.py); the library uses its own internal layout. Functions that can
// fail return a negative number, or null, and write an error text to `error` (at least EM_ERROR_BYTES long). Weights
// and tables are copied: the caller may free its arrays after each call. The description must come from a proved
// model (model/prove.py); the library checks memory and options, not the mathematics.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EM_ABI_VERSION = 10, EM_ERROR_BYTES = 256 };

// Instruction sets: for all machines, of x86-64, of ARM; the slowest first. EM_NEON is that of 64-bit ARM (armv8.0) or
// of 32-bit ARM (armv7). EM_AUTO selects the fastest that this machine supports.
enum {
  EM_AUTO = 0,
  EM_PORTABLE = 1,
  EM_AVX2 = 2,
  EM_AVXVNNI = 3,
  EM_AVX512VNNI = 4,
  EM_NEON = 5,
  EM_DOTPROD = 6,
  EM_I8MM = 7
};

// Forms of a convolution (docs/low-bits.md). EM_FASTEST selects the fastest.
enum { EM_FASTEST = 0, EM_PLAIN = 1, EM_PACKED = 2, EM_BYTES = 3, EM_PLANES = 4, EM_WINOGRAD = 5 };

// Requantization: EM_RAW keeps the int32 accumulator, EM_MULTIPLIER is layers.Multiplier, EM_TABLE layers.ShiftTable.
enum { EM_RAW = 0, EM_MULTIPLIER = 1, EM_TABLE = 2 };

typedef struct em_program em_program;
typedef struct em_resizer em_resizer;

// One tensor: height, width, channels, and what its bytes mean: their least and greatest integer are lo, hi.
typedef struct {
  int32_t height, width, channels;
  int32_t is_signed, zero_point, lo, hi;
} em_tensor;

// Every array holds one entry per output channel; `table` holds 256 per channel, output integers. Unused ones are null.
typedef struct {
  int32_t kind;
  const int32_t* multiplier;
  const uint8_t* shift;
  int32_t lo, hi;
  const int16_t* table;
} em_requantize;

typedef struct {
  int32_t kernel_height, kernel_width, stride_y, stride_x, top, left, bottom, right;
  int32_t dilation_y, dilation_x;  // convolutions only: elements from one tap to the next, otherwise 1
} em_window;

// One axis of a bilinear resize: the two neighbours of every output position, and the weight of the upper one in units
// of 2**-11.
typedef struct {
  const int32_t *lower, *upper, *weight;
} em_neighbours;

int32_t em_abi_version(void);

// The fastest instruction set that this machine supports, one of the enumeration above.
int32_t em_best_isa(void);

// Start a description. threads >= 1.
em_program* em_open(int32_t isa, int32_t threads, char* error);
void em_close(em_program* program);
int32_t em_isa(const em_program* program);

// Use this form for every convolution that is added from now on and that it can run; the others run as with EM_FASTEST.
void em_prefer(em_program* program, int32_t form);

// Declare a tensor; returns its number (0, 1, ...). Each other tensor is the output of exactly one later layer.
int32_t em_add_tensor(em_program* program, const em_tensor* tensor, char* error);

// Layers, in execution order. Tensors are given by number. Each function returns the layer's index.
// weights int32 [outputs, KH, KW, depth], depth = I / groups; bias int32 [outputs] (zeros if the model has none).
int32_t em_add_conv(em_program* program, const char* name, int32_t input, int32_t output, const em_window* window,
                    int32_t outputs, int32_t depth, int32_t groups, const int32_t* weights, const int32_t* bias,
                    const em_requantize* requantize, char* error);
// The weights of a convolution that was added are sums of binary bases: basis int8 [count, outputs, KH, KW, depth] of
// -1 and 1, factors int16 [outputs, count], count 1 to 8. Returns 0.
int32_t em_set_bases(em_program* program, int32_t layer, int32_t count, const int8_t* basis, const int16_t* factors,
                     char* error);
int32_t em_add_sum(em_program* program, const char* name, int32_t a, int32_t b, int32_t output, int32_t multiplier_a,
                   int32_t multiplier_b, int32_t shift, int32_t lo, int32_t hi, char* error);
int32_t em_add_clamp(em_program* program, const char* name, int32_t input, int32_t output, int32_t lo, int32_t hi,
                     char* error);
int32_t em_add_rescale(em_program* program, const char* name, int32_t input, int32_t output, int32_t channels,
                       const em_requantize* requantize, char* error);
int32_t em_add_max_pool(em_program* program, const char* name, int32_t input, int32_t output, const em_window* window,
                        char* error);
int32_t em_add_average_pool(em_program* program, const char* name, int32_t input, int32_t output,
                            const em_window* window, int32_t channels, const em_requantize* requantize, char* error);
int32_t em_add_concat(em_program* program, const char* name, const int32_t* inputs, int32_t count, int32_t output,
                      char* error);
int32_t em_add_upsample(em_program* program, const char* name, int32_t input, int32_t output, int32_t factor_y,
                        int32_t factor_x, char* error);

// table: 256 output integers, or 256 for each of `tables` channels, by the input integer minus the least of its dtype.
int32_t em_add_lookup(em_program* program, const char* name, int32_t input, int32_t output, int32_t tables,
                      const int16_t* table, char* error);
// b has the shape of a, or one row and one column.
int32_t em_add_product(em_program* program, const char* name, int32_t a, int32_t b, int32_t output, int32_t channels,
                       const em_requantize* requantize, char* error);
int32_t em_add_pad(em_program* program, const char* name, int32_t input, int32_t output, int32_t top, int32_t left,
                   int32_t spacing_y, int32_t spacing_x, char* error);
// Begins at (top, left, channel); the output's shape says where it ends.
int32_t em_add_slice(em_program* program, const char* name, int32_t input, int32_t output, int32_t top, int32_t left,
                     int32_t channel, int32_t step_y, int32_t step_x, int32_t step_channel, char* error);
int32_t em_add_channel_shuffle(em_program* program, const char* name, int32_t input, int32_t output, int32_t groups,
                               char* error);
int32_t em_add_resize_bilinear(em_program* program, const char* name, int32_t input, int32_t output,
                               const em_neighbours* rows, const em_neighbours* columns, char* error);

// End the description: fuse, repack, plan the memory, start the threads. Nothing is allocated afterwards.
// outputs: the tensors that em_run writes, each once, in this order.
int32_t em_seal(em_program* program, int32_t input, const int32_t* outputs, int32_t count, char* error);

// Run `images` images [N, H, W, C]; outputs[i] receives output i, [N, H, W, C] of its type (int32 for EM_RAW).
void em_run(em_program* program, int32_t images, const uint8_t* input, void* const* outputs);

// Number of steps after fusion, the name of each ("conv2+add0"), and one image with the nanoseconds of each step.
int32_t em_steps(const em_program* program);
const char* em_step_name(const em_program* program, int32_t step);
// How a convolution runs and why, and the bytes of its weights in memory; "" and 0 for other steps.
const char* em_step_form(const em_program* program, int32_t step);
int64_t em_step_weight_bytes(const em_program* program, int32_t step);
// Thousandths of the time of EM_PLAIN that a convolution is predicted to take; 0 where nothing is predicted.
int32_t em_step_predicted(const em_program* program, int32_t step);
void em_profile(em_program* program, const uint8_t* input, void* const* outputs, int64_t* nanoseconds);

// What surrounds a product of matrices of few bits, on an instruction set that this machine supports.
// q = floor((x - least) * ((2**bits - 1) / (greatest - least)) + 0.5) in float32, bits 1 .. 8; range: least, greatest.
void em_quantize(int32_t isa, const float* x, int64_t count, int32_t bits, uint8_t* out, float* range);
// out[r][c] = float32(sums[r][c]) * scale[c] + offset[c].
void em_dequantize(int32_t isa, const int32_t* sums, int64_t rows, int32_t columns, const float* scale,
                   const float* offset, float* out);

// Frame to input tensor: crop, exact area resize, colour, fill and table (model/preprocess.py).
// One axis: `size` output pixels; pixel i covers `count[i]` source pixels of the crop from `start[i]` on, with the next
// `count[i]` entries of `weights`; the weights of each output pixel sum to `total`.
typedef struct {
  int32_t size;
  const int32_t *start, *count, *weights;
  int32_t total;
} em_axis;

// What a channel of the tensor holds.
enum { EM_BLUE = 0, EM_GREEN = 1, EM_RED = 2, EM_GRAY = 3, EM_ALPHA = 4 };

// rows, columns: of the part of the tensor that shows the frame, which begins at (inner_top, inner_left); the other
// pixels take the integers `fill` [channels]. frame_channels: 3 (blue, green, red) or 1 (gray); top, left: the crop.
// height, width, channels: of the tensor; 1 to 4 channels. colours: [channels]. table: [channels][256] bytes.
typedef struct {
  em_axis rows, columns;
  int32_t frame_channels, top, left;
  int32_t height, width, channels;
  int32_t inner_top, inner_left;
  const int32_t* colours;
  const uint8_t *table, *fill;
} em_resize;

em_resizer* em_resizer_open(int32_t isa, const em_resize* resize, char* error);
void em_resizer_close(em_resizer* resizer);

// frame: its first pixel, before the crop; row_bytes: stride of the rows, may be negative; the pixels of a row
// are contiguous. output: [height, width, channels].
void em_resizer_run(em_resizer* resizer, const uint8_t* frame, int64_t row_bytes, uint8_t* output);

#ifdef __cplusplus
}
#endif
