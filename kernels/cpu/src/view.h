// Tensors in the arena.
// 
// Inside the library every 8-bit tensor is unsigned: u = q for an unsigned tensor and u = q + 128 for a signed one,
// with the zero point shifted equally. All formulas of the kernels are on u. Kernels of ARM multiply signed bytes:
// there u is less by 128, from -128 to 127.
#pragma once

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
  int32_t zero;
  int32_t blocks() const { return (channels + kBlock - 1) / kBlock; }
  int64_t at(int64_t y, int64_t x) const { return origin + y * row + x * pixel; }
};

struct Window {
  int32_t height, width, stride_y, stride_x, top, left;
};

}  // namespace edgemeta
