#include "winograd.h"

#include <algorithm>
#include <cstdlib>

namespace edgemeta {
namespace {

// G of F(2 x 2), of F(4 x 4) times 24, its last row times 6, and that without the common factor of each row, which has
// to be taken over by the outputs' transform.
constexpr int32_t kG2[4][3] = {{2, 0, 0}, {1, 1, 1}, {1, -1, 1}, {0, 0, 2}};
constexpr int32_t kG4[6][3] = {{6, 0, 0}, {-4, -4, -4}, {-4, 4, -4}, {1, 2, 4}, {1, -2, 4}, {0, 0, 6}};
constexpr int32_t kSmallG4[6][3] = {{1, 0, 0}, {1, 1, 1}, {1, -1, 1}, {1, 2, 4}, {1, -2, 4}, {0, 0, 1}};
constexpr int32_t kIdentity[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};

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
  // The rows of G sum to at most 12 in magnitude, or 7: transformed weights lie within 144 or 49 times the greatest.
  const int64_t times = multiplies_pairs(kernels) ? 49 : 144;
  if (kernels.winograd_side == 4) return times * greatest <= 32767 && fits_26_bits(layer, conv, kernels);
  return 9 * greatest <= 32767 && 9 * 255 * int64_t{conv.in.channels} * greatest < int64_t{1} << 29;
}

double winograd_share(const Conv& conv, const Kernels& kernels) {
  const double depth = conv.in.blocks() * kBlock, blocks = conv.out.blocks();
  const int32_t side = kernels.winograd_side;
  const double tiles = double((conv.out.width + side - 1) / side) * ((conv.out.height + side - 1) / side);
  const double of_pixels = double(conv.out.width) * conv.out.height / (side * side);
  // Per tile of outputs and block, with C input channels; blocks share a tile's input. Instructions on AVX2: plain
  // 9 C / 2 steps of 22 for four pixels; Winograd 16 C / 2 steps of 22 / 4, about 130 for the products in memory and
  // their transform, and 5 C for that of the input.
  if (side == 2) return tiles * (44 * depth + 130 + 5 * depth / blocks) / (of_pixels * 99 * depth);
  // Instructions on armv8.0: plain 3.6 * 9 C + 50 for a pixel; 33 C for the transform of a tile's input; 4.3 C + 14 at
  // each of 36 positions, and 840 for the transform of the sums.
  if (kernels.is_signed)
    return tiles * (33 * depth / blocks + 36 * (4.3 * depth + 14) + 840) / (of_pixels * 16 * (3.6 * 9 * depth + 50));
  // Cycles of Zen 4 with vectors of 512 bits: plain 9 C / 4 products of bytes and 5 for requantization, for a pixel;
  // Winograd 36 C / 2 of int16 and the transform of weights, which takes as long for `joint` tiles as for one, or a
  // load of weights for each of these, 5 C for the transform of the input, and 140 or 180 for that of the sums and
  // requantization. With 256 bits all take twice as long.
  const bool transforms = kernels.transforms_weights;
  const double joint = std::min(tiles, 4.0), weights = kBlock * depth * blocks;
  const double products = transforms ? (18 + 16 / joint) * depth : 18 * depth * std::max(1.0, 1.5 / joint);
  const double winograd = tiles * blocks * (products + 5 * depth / blocks + (transforms ? 140 : 180));
  // Reading weights once where frames are far apart, as a camera's are, twice as long for those that half of the second
  // cache does not hold. Transformed ones are read in rows, a sixth of the lines at a time.
  const auto loads = [&](double lines) { return (lines + std::max(0.0, lines - 8192)) * (transforms ? 10 : 16); };
  return (winograd + loads(weights / 32 * (transforms ? 9 : 36))) /
         (of_pixels * blocks * 16 * (2.25 * depth + 5) + loads(weights / 64 * 9));
}

Buffer pack_winograd(const Layer& layer, Conv& conv, const Kernels& kernels) {
  const int64_t depth = int64_t{conv.in.blocks()} * kBlock;
  const int64_t side = kernels.transforms_weights ? 3 : kernels.winograd_side + 2, positions = side * side;
  conv.weight_bytes = 2;
  conv.block_bytes = positions * depth * kBlock * conv.weight_bytes;
  Buffer weights(static_cast<size_t>(conv.out.blocks() * conv.block_bytes));
  auto* packed = reinterpret_cast<int16_t*>(weights.data());
  const int64_t adjacent = kernels.is_signed ? 1 : 2;  // channels
  const auto pack = [&](const auto& g, const auto& vector_of) {
    transform_all(g, layer, conv, [&](int64_t o, int64_t c, int64_t position, int16_t weight) {
      const int64_t vector = vector_of(o / kBlock, position, c);
      packed[(vector * kBlock + o % kBlock) * adjacent + c % adjacent] = weight;
    });
  };
  const auto by_position = [&](int64_t block, int64_t at, int64_t c) {
    return ((block * positions + at) * depth + c) / adjacent;
  };
  if (kernels.transforms_weights)
    pack(kIdentity, [&](int64_t block, int64_t tap, int64_t c) { return (block * depth + c) / 2 * positions + tap; });
  else if (multiplies_pairs(kernels))
    pack(kSmallG4, [&](int64_t block, int64_t at, int64_t c) {
      return ((block * 6 + at % 6) * depth + c) / 2 * 6 + at / 6;
    });
  else
    kernels.winograd_side == 4 ? pack(kG4, by_position) : pack(kG2, by_position);
  return weights;
}

}  // namespace edgemeta
