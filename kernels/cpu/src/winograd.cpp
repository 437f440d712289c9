#include "winograd.h"

#include <algorithm>
#include <cstdlib>

namespace edgemeta {
namespace {

// The transformed weights of one kernel, g[3][3] to u[4][4]: G g G' with G = 2 0 0, 1 1 1, 1 -1 1, 0 0 2.
void transform_kernel(const int32_t g[3][3], int32_t u[4][4]) {
  constexpr int32_t kG[4][3] = {{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}};
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j) {
      u[i][j] = 0;
      for (int y = 0; y < 3; ++y)
        for (int x = 0; x < 3; ++x) u[i][j] += kG[i][y] * g[y][x] * kG[j][x];
    }
}

int64_t greatest_weight(const Layer& layer) {
  int64_t greatest = 0;
  for (const int32_t weight : layer.weights) greatest = std::max(greatest, std::abs(int64_t{weight}));
  return greatest;
}

}  // namespace

bool fits_winograd(const Layer& layer, const Conv& conv, const Kernels& kernels) {
  const em_window& w = layer.window;
  if (!kernels.conv_winograd || w.kernel_height != 3 || w.kernel_width != 3 || w.stride_y != 1 || w.stride_x != 1 ||
      w.dilation_y != 1 || w.dilation_x != 1 || conv.in.pixel % kBlock != 0)
    return false;
  const int64_t greatest = greatest_weight(layer);
  return 9 * greatest <= 32767 && 9 * 255 * int64_t{conv.in.channels} * greatest < int64_t{1} << 29;
}

// Per block of outputs and four pixels, with C input channels: plain 9 C / 2 steps of 22 instructions; Winograd 16 C / 2
// steps of 22 / 4 for each tile, about 130 for the products in memory and their transform, and 5 C for that of the input,
// once for all blocks.
double winograd_share(const Conv& conv) {
  const double depth = conv.in.blocks() * kBlock, blocks = conv.out.blocks();
  const double tiles = double((conv.out.width + 1) / 2) * ((conv.out.height + 1) / 2);
  const double pixels = double(conv.out.width) * conv.out.height;
  return tiles * (44 * depth + 130 + 5 * depth / blocks) / (pixels / 4 * 99 * depth);
}

Buffer pack_winograd(const Layer& layer, Conv& conv) {
  const int64_t depth = int64_t{conv.in.blocks()} * kBlock, channels = conv.in.channels;
  conv.weight_bytes = 2;
  conv.block_bytes = 16 * depth * kBlock * conv.weight_bytes;
  Buffer weights(static_cast<size_t>(conv.out.blocks() * conv.block_bytes));
  auto* packed = reinterpret_cast<int16_t*>(weights.data());
  for (int64_t o = 0; o < conv.out.channels; ++o)
    for (int64_t c = 0; c < channels; ++c) {
      int32_t g[3][3], u[4][4];
      for (int y = 0; y < 3; ++y)
        for (int x = 0; x < 3; ++x) g[y][x] = layer.weights[((o * 3 + y) * 3 + x) * channels + c];
      transform_kernel(g, u);
      for (int64_t i = 0; i < 16; ++i) {
        const int64_t pair = ((o / kBlock * 16 + i) * depth + c) / 2;
        packed[(pair * kBlock + o % kBlock) * 2 + c % 2] = static_cast<int16_t>(u[i / 4][i % 4]);
      }
    }
  return weights;
}

}  // namespace edgemeta
