#include "winograd.h"

#include <algorithm>
#include <cstdlib>

namespace edgemeta {
namespace {

// G of F(2 x 2), and of F(4 x 4) times 24, its last row times 6.
constexpr int32_t kG2[4][3] = {{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}};
constexpr int32_t kG4[6][3] = {{6, 0, 0}, {-4, -4, -4}, {-4, 4, -4}, {1, 2, 4}, {1, -2, 4}, {0, 0, 6}};

// The transformed weights of one kernel, g[3][3] to u[N][N]: G g G'.
template <int N>
void transform_kernel(const int32_t (&kG)[N][3], const int32_t g[3][3], int32_t u[N][N]) {
  for (int i = 0; i < N; ++i)
    for (int j = 0; j < N; ++j) {
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

// F(4 x 4) finds an accumulator from its low 26 bits: none, for any input bytes, may reach 2**25 in magnitude.
bool fits_26_bits(const Layer& layer, const Conv& conv, const Kernels& kernels) {
  constexpr int64_t kEnd = int64_t{1} << 25;
  const int64_t below = conv.in.zero - (kernels.is_signed ? -128 : 0), above = 255 - below;  // of x - zero
  const size_t per_channel = layer.weights.size() / layer.bias.size();
  for (size_t o = 0; o < layer.bias.size(); ++o) {
    int64_t least = layer.bias[o], greatest = least;
    for (size_t i = 0; i < per_channel; ++i) {
      const int64_t weight = layer.weights[o * per_channel + i];
      least -= weight > 0 ? weight * below : -weight * above;
      greatest += weight > 0 ? weight * above : -weight * below;
    }
    if (least <= -kEnd || greatest >= kEnd) return false;
  }
  return true;
}

// Whether the kernels are those of VNNI: tiles of four with products of pairs; ARM's multiply single int16.
bool multiplies_pairs(const Kernels& kernels) { return kernels.winograd_side == 4 && !kernels.is_signed; }

// G g G' of each output o and input c, as store(o, c, position, weight).
template <int N, typename Store>
void transform_all(const int32_t (&kG)[N][3], const Layer& layer, const Conv& conv, const Store& store) {
  const int64_t channels = conv.in.channels;
  for (int64_t o = 0; o < conv.out.channels; ++o)
    for (int64_t c = 0; c < channels; ++c) {
      int32_t g[3][3], u[N][N];
      for (int y = 0; y < 3; ++y)
        for (int x = 0; x < 3; ++x) g[y][x] = layer.weights[((o * 3 + y) * 3 + x) * channels + c];
      transform_kernel(kG, g, u);
      for (int64_t i = 0; i < N * N; ++i) store(o, c, i, static_cast<int16_t>(u[i / N][i % N]));
    }
}

}  // namespace

bool fits_winograd(const Layer& layer, const Conv& conv, const Kernels& kernels) {
  const PaddedWindow& w = layer.window;
  if (!kernels.conv_winograd || w.kernel_height != 3 || w.kernel_width != 3 || w.stride_y != 1 || w.stride_x != 1 ||
      w.dilation_y != 1 || w.dilation_x != 1 || conv.in.pixel % kBlock != 0)
    return false;
  const int64_t greatest = greatest_weight(layer);
  // The rows of G sum to 12 in magnitude, so that transformed weights lie within 144 times the greatest.
  if (kernels.winograd_side == 4) return 144 * greatest <= 32767 && fits_26_bits(layer, conv, kernels);
  return 9 * greatest <= 32767 && 9 * 255 * int64_t{conv.in.channels} * greatest < int64_t{1} << 29;
}

namespace {

// The time of both forms, per tile of outputs and block, with C input channels; blocks share a tile's input.
struct Times {
  double plain, winograd;
};

// Instructions on AVX2, tiles of two: plain 9 C / 2 steps of 22 for four pixels; Winograd 16 C / 2 steps of 22 / 4,
// about 130 for the products in memory and their transform, and 5 C for that of the input.
Times tiles_of_two(double depth, double blocks) { return {99 * depth, 44 * depth + 130 + 5 * depth / blocks}; }

// Instructions on armv8.0: plain 3.6 * 9 C + 50 for a pixel; 33 C for the transform of a tile's input; 4.3 C + 14 at
// each of 36 positions, and 840 for the transform of the sums.
Times tiles_of_four(double depth, double blocks) {
  return {16 * (3.6 * 9 * depth + 50), 33 * depth / blocks + 36 * (4.3 * depth + 14) + 840};
}

// Cycles of Zen 4 with vectors of 512 bits: plain 9 C / 4 products of bytes and 5 for requantization, for a pixel;
// Winograd 36 C / 2 of int16, with a load of weights for each `joint` of them of which 1.5 take a cycle, 5 C for the
// transform of the input, 100 for that of the sums, and as much requantization. With 256 bits all take twice as long.
Times tiles_of_four_vnni(double depth, double blocks, double joint) {
  const double products = 18 * depth * std::max(1.0, 1.5 / joint);
  return {16 * (2.25 * depth + 5), products + 5 * depth / blocks + 100 + 16 * 5};
}

// The time to read weights once, in the same unit: those that fill more than the first cache come from the second one,
// or, where frames are far apart, from further away; those beyond half of the second at half its rate.
double loads(double bytes, const FormCosts& costs) {
  constexpr double kFirst = 24 * 1024, kSecond = 512 * 1024, kPlainOf512Bits = 8;
  if (bytes <= kFirst) return 0;
  return bytes / 64 * costs.line / (costs.plain / kPlainOf512Bits) * (bytes <= kSecond ? 1 : 2);
}

}  // namespace

double winograd_share(const Conv& conv, const Kernels& kernels) {
  const double depth = conv.in.blocks() * kBlock, blocks = conv.out.blocks();
  const int32_t side = kernels.winograd_side;
  const double tiles = double((conv.out.width + side - 1) / side) * ((conv.out.height + side - 1) / side);
  const double of_pixels = double(conv.out.width) * conv.out.height / (side * side);
  if (!multiplies_pairs(kernels)) {
    const Times times = side == 2 ? tiles_of_two(depth, blocks) : tiles_of_four(depth, blocks);
    return tiles * times.winograd / (of_pixels * times.plain);
  }
  const Times times = tiles_of_four_vnni(depth, blocks, std::min(tiles, 4.0));
  const FormCosts& costs = kernels.low_bit->costs;
  const double winograd = tiles * blocks * times.winograd + loads(36 * 2 * kBlock * depth * blocks, costs);
  return winograd / std::max(of_pixels * blocks * times.plain, loads(9 * kBlock * depth * blocks, costs));
}

Buffer pack_winograd(const Layer& layer, Conv& conv, const Kernels& kernels) {
  const int64_t depth = int64_t{conv.in.blocks()} * kBlock;
  const int64_t positions = int64_t{kernels.winograd_side + 2} * (kernels.winograd_side + 2);
  conv.weight_bytes = 2;
  conv.block_bytes = positions * depth * kBlock * conv.weight_bytes;
  Buffer weights(static_cast<size_t>(conv.out.blocks() * conv.block_bytes));
  auto* packed = reinterpret_cast<int16_t*>(weights.data());
  if (multiplies_pairs(kernels))
    transform_all(kG4, layer, conv, [&](int64_t o, int64_t c, int64_t position, int16_t weight) {
      const int64_t column = position % 6, row = position / 6;
      const int64_t pair = ((o / kBlock * 6 + column) * depth + c) / 2 * 6 + row;
      packed[(pair * kBlock + o % kBlock) * 2 + c % 2] = weight;
    });
  else if (kernels.winograd_side == 4)
    transform_all(kG4, layer, conv, [&](int64_t o, int64_t c, int64_t position, int16_t weight) {
      packed[((o / kBlock * positions + position) * depth + c) * kBlock + o % kBlock] = weight;
    });
  else
    transform_all(kG2, layer, conv, [&](int64_t o, int64_t c, int64_t position, int16_t weight) {
      const int64_t pair = ((o / kBlock * positions + position) * depth + c) / 2;
      packed[(pair * kBlock + o % kBlock) * 2 + c % 2] = weight;
    });
  return weights;
}

}  // namespace edgemeta
