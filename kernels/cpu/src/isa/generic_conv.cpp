// Any convolution: groups, and weights that do not fit a vector multiply.
#include "finish.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

inline I32x16 accumulate_run(const GenericConv& conv, const uint8_t* in, const int32_t* weights, I32x16 acc) {
  const int32_t height = conv.window.height, width = conv.window.width, depth = conv.depth;
  const int64_t row = conv.tap_row, pixel = conv.tap_pixel;
  for (int32_t ky = 0; ky < height; ++ky) {
    const uint8_t* tap = in + ky * row;
    for (int32_t kx = 0; kx < width; ++kx, tap += pixel)
      for (int32_t i = 0; i < depth; ++i, weights += kBlock)
        acc = acc + load(weights) * splat(static_cast<Byte>(tap[i]));
  }
  return acc;
}

}  // namespace

void generic_conv(const GenericConv& conv, uint8_t* arena, int32_t first, int32_t last) {
  const Window win = conv.window;
  const View from = conv.in, to = conv.out;
  const int64_t run_weights = int64_t{win.height} * win.width * conv.depth * kBlock;
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < to.width; ++x) {
      const uint8_t* in = arena + from.at(int64_t{y} * win.stride_y - win.top, int64_t{x} * win.stride_x - win.left);
      uint8_t* out = arena + to.at(y, x);
      for (int32_t r = 0; r < conv.run_count; ++r) {
        const Run run = conv.runs[r];
        const I32x16 bias = load(conv.bias + r * kBlock);
        const I32x16 acc =
            accumulate_run(conv, in + run.input_channel, conv.weights + r * run_weights, bias);
        const int32_t bytes = conv.requantize.method[r] == Method::raw ? 4 : 1;
        uint8_t finished[4 * kBlock];
        finish_one(conv.requantize, r, acc, finished);
        memcpy(out + int64_t{run.output_channel} * bytes, finished, static_cast<size_t>(run.count) * bytes);
      }
    }
  }
}

}  // namespace edgemeta::EM_NAMESPACE
