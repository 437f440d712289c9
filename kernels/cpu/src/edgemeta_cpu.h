// C interface of the CPU library: a program takes a network as one block of bytes, then runs it.
//
// The bytes are those of kernels/lowering/plan_bytes.py; integers are those of the model file (model/layers/). Any
// bytes can be given: what does not fit is an error. Functions that can fail return a negative number, or null, and
// write an error text to `error` (at least EM_ERROR_BYTES long). The caller may free the bytes after the call.
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { EM_ABI_VERSION = 16, EM_ERROR_BYTES = 256 };

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

// What a plan says of convolutions: their form (docs/cpu-kernels.md), EM_FASTEST for the planner's choice; and their
// requantization, EM_RAW for the int32 accumulator, EM_MULTIPLIER for layers.Multiplier, EM_TABLE for
// layers.ShiftTable.
enum { EM_FASTEST = 0, EM_PLAIN = 1, EM_PACKED = 2, EM_BYTES = 3, EM_PLANES = 4, EM_WINOGRAD = 5 };
enum { EM_RAW = 0, EM_MULTIPLIER = 1, EM_TABLE = 2 };

typedef struct em_program em_program;
typedef struct em_resizer em_resizer;

int32_t em_abi_version(void);

// The fastest instruction set that this machine supports, one of the enumeration above.
int32_t em_best_isa(void);

// A program with its threads, 1 or more, and without a network.
em_program* em_open(int32_t isa, int32_t threads, char* error);
void em_close(em_program* program);
int32_t em_isa(const em_program* program);

// Read a plan, repack, place the tensors. Nothing is allocated afterwards. Once, before all that follows.
int32_t em_load(em_program* program, const uint8_t* plan, int64_t length, char* error);

// Bytes of an image in the caller's layout, of the input (-1) or of an output.
int64_t em_bytes(const em_program* program, int32_t output);

// Run `images` images [N, H, W, C]; outputs[i] receives output i, [N, H, W, C] of its type (int32 for EM_RAW).
void em_run(em_program* program, int32_t images, const uint8_t* input, void* const* outputs);

// One line for each step after fusion, of fields between tabs: the name ("conv2+add0"); of a convolution the bytes of
// its weights in memory, 0 for others; thousandths of the time of EM_PLAIN that it is predicted to take, 0 where
// nothing is predicted; how it runs and why, nothing for others. em_profile runs one image and tells the steps'
// nanoseconds.
const char* em_steps(const em_program* program);
void em_profile(em_program* program, const uint8_t* input, void* const* outputs, int64_t* nanoseconds);

// What surrounds a product of matrices of few bits, on an instruction set that this machine supports.
// q = floor((x - least) * ((2**bits - 1) / (greatest - least)) + 0.5) in float32, bits 1 .. 8; range: least, greatest.
void em_quantize(int32_t isa, const float* x, int64_t count, int32_t bits, uint8_t* out, float* range);
// out[r][c] = float32(sums[r][c]) * scale[c] + offset[c].
void em_dequantize(int32_t isa, const int32_t* sums, int64_t rows, int32_t columns, const float* scale,
                   const float* offset, float* out);

// What a channel of a tensor holds that a resizer fills.
enum { EM_BLUE = 0, EM_GREEN = 1, EM_RED = 2, EM_GRAY = 3, EM_ALPHA = 4 };

// Frame to input tensor: crop, exact area resize, colour, fill and table (model/preprocess.py), as the bytes of
// kernels/cpu/preprocess.py describe it.
em_resizer* em_resizer_open(int32_t isa, const uint8_t* resize, int64_t length, char* error);
void em_resizer_close(em_resizer* resizer);

// frame: its first pixel, before the crop; row_bytes: stride of the rows, may be negative; the pixels of a row
// are contiguous. output: [height, width, channels].
void em_resizer_run(em_resizer* resizer, const uint8_t* frame, int64_t row_bytes, uint8_t* output);

#ifdef __cplusplus
}
#endif
