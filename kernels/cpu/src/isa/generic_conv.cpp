// Any convolution: groups, depthwise ones, and weights that fit no vector multiply.
#include "finish.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// DEPTHWISE: lane i of a run reads input channel i of it; otherwise all lanes read the same input channels.
template <bool DEPTHWISE>
void run_rows(const GenericConv& conv, uint8_t* arena, int32_t first, int32_t last) {
  const Window& win = conv.window;
  const int64_t run_weights = int64_t{win.height} * win.width * conv.depth * kBlock;
  for (int32_t y = first; y < last; ++y) {
    for (int32_t x = 0; x < conv.out.width; ++x) {
      for (int32_t r = 0; r < conv.run_count; ++r) {
        const Run& run = conv.runs[r];
        const int32_t* weights = conv.weights + r * run_weights;
        I32x16 acc = load(conv.bias + r * kBlock);
        for (int32_t ky = 0; ky < win.height; ++ky) {
          for (int32_t kx = 0; kx < win.width; ++kx) {
            const uint8_t* in =
                arena +
                conv.in.at(int64_t{y} * win.stride_y - win.top + ky, int64_t{x} * win.stride_x - win.left + kx) +
                run.input_channel;
            for (int32_t i = 0; i < conv.depth; ++i, weights += kBlock)
              acc = acc + load(weights) * (DEPTHWISE ? load_bytes(in) : splat(in[i]));
          }
        }
        uint8_t finished[4 * kBlock];
        finish_one(conv.requantize, r, acc, finished);
        const int32_t bytes = conv.requantize.method[r] == Method::raw ? 4 : 1;
        uint8_t* out = arena + conv.out.at(y, x);
        memcpy(out + int64_t{run.output_channel} * bytes, finished, static_cast<size_t>(run.count) * bytes);
      }
    }
  }
}

}  // namespace

void generic_conv(const GenericConv& conv, uint8_t* arena, int32_t first, int32_t last) {
  conv.depthwise ? run_rows<true>(conv, arena, first, last) : run_rows<false>(conv, arena, first, last);
}

}  // namespace edgemeta::EM_NAMESPACE
