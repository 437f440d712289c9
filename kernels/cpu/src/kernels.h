// The functions of each instruction set.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "conv_arguments.h"
#include "layer_arguments.h"
#include "resize_arguments.h"

namespace edgemeta {

// Measured times of the forms of a convolution, for 32 inputs by 16 output channels, in units of this instruction set
// (docs/cpu-kernels.md).
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

// Each function computes the output rows first .. last - 1 of one image. `scratch` belongs to the calling thread.
struct Kernels {
  const char* name;
  Lines lines;
  bool is_signed;        // of the library's bytes: -128 .. 127 instead of 0 .. 255
  bool transforms_weights;  // conv_winograd, as it reads them: then they are not transformed in memory
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
  // A row of an image of three channels: each byte exclusive-or `flip`.
  void (*load_pixels)(const uint8_t* image, uint8_t* row, int32_t width, uint8_t flip);
  void (*lookup)(const Lookup&, uint8_t* arena, int32_t first, int32_t last);
  // Tables for each channel, [count][256], as the lookup of tensors in whole blocks reads them.
  void (*pack_tables)(uint8_t* tables, int64_t count);
  void (*product)(const Product&, uint8_t* arena, int32_t first, int32_t last);
  void (*gather)(const ElementGather&, uint8_t* arena, int32_t first, int32_t last);
  void (*matmul)(const MatMul&, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch);
  size_t (*matmul_scratch)(const MatMul&);
  void (*softmax)(const Softmax&, uint8_t* arena, int32_t first, int32_t last);
  void (*normalize)(const Normalize&, uint8_t* arena, int32_t first, int32_t last);
  void (*fill)(const Fill&, uint8_t* arena, int32_t first, int32_t last);
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
