// Convolution by tiles: accumulators of a few pixels and channels stay in registers during the whole window, then they
// are requantized, added to the shortcut if there is one, and stored.
#include "finish.h"
#include "table.h"

#if defined(EM_ISA_AVX512)
#include "tile_avx512.h"
#elif defined(EM_ISA_AVX2)
#include "tile_avx2.h"
#else
#include "tile_portable.h"
#endif

namespace edgemeta::EM_NAMESPACE {
namespace {

// Store result(p) for the pixels p = 0 .. P - 1, four at a time if possible.
template <int P, typename Result>
INLINE inline void store_tile(uint8_t* to, int64_t step, const Result& result) {
  if constexpr (P >= 4) {
    unrolled<P / 4>([&](auto four) INLINE {
      constexpr int p = 4 * four.value;
      store_bytes(to + p * step, step, result(Constant<p>()), result(Constant<p + 1>()), result(Constant<p + 2>()),
                  result(Constant<p + 3>()));
    });
  } else {
    unrolled<P>([&](auto p) INLINE { store_bytes(to + p.value * step, result(p)); });
  }
}

// Requantize and store the n-th block of a tile whose first pixel is (y, x).
template <int n, int P, int N>
INLINE inline void finish_block(const Conv& conv, uint8_t* arena, int32_t y, int32_t x, int32_t block,
                                const Accumulators<P, N>& acc) {
  uint8_t* out = arena + conv.out.at(y, x);
  if (conv.requantize.method[block] == Method::raw) {
    unrolled<P>([&](auto p) INLINE {
      finish_one(conv.requantize, block, acc.lane[p.value][n],
                 out + p.value * int64_t{conv.out.pixel} + block * kBlock * 4);
    });
    return;
  }
  uint8_t* to = out + block * kBlock;
  const int64_t step = conv.out.pixel;
  if (!conv.has_sum) {
    with_method(conv.requantize, block, true, [&](const auto& finish) INLINE {
      store_tile<P>(to, step, [&](auto p) INLINE { return finish(acc.lane[p.value][n]); });
    });
    return;
  }
  const uint8_t* other = arena + conv.other.at(y, x) + block * kBlock;
  const int64_t other_step = conv.other.pixel;
  with_method(conv.requantize, block, false, [&](const auto& finish) INLINE {
    store_tile<P>(to, step, [&](auto p) INLINE {
      return weighted_sum(conv.sum, finish(acc.lane[p.value][n]), load_bytes(other + p.value * other_step));
    });
  });
}

// Outputs of P pixels from (y, x) on, N blocks from `block` on.
template <int P, int N>
void run_tile(const Conv& conv, uint8_t* arena, int32_t y, int32_t x, int32_t block, uint8_t* scratch) {
  const Window& win = conv.window;
  const int64_t block_bytes = int64_t{win.height} * conv.spans * conv.span * kBlock * kernels.weight_bytes;
  const TileInput tile = {
      arena + conv.in.at(int64_t{y} * win.stride_y - win.top, int64_t{x} * win.stride_x - win.left),
      win.stride_x * conv.in.pixel,
      static_cast<const uint8_t*>(conv.weights) + block * block_bytes,
      block_bytes,
      block == 0,
      scratch,
  };
  Accumulators<P, N> acc;
  unrolled<P * N>([&](auto i) INLINE {
    constexpr int p = i.value / N, n = i.value % N;
    acc.lane[p][n] = load(conv.bias + (block + n) * kBlock);
  });
  acc = accumulate_tile(conv, tile, acc);
  unrolled<N>([&](auto n) INLINE { finish_block<n.value>(conv, arena, y, x, block + n.value, acc); });
}

template <int P>
void run_pixels(const Conv& conv, uint8_t* arena, int32_t y, int32_t x, uint8_t* scratch) {
  const int32_t blocks = conv.out.blocks();
  int32_t block = 0;
  if constexpr (P <= kPairPixels)
    for (; block + 2 <= blocks; block += 2) run_tile<P, 2>(conv, arena, y, x, block, scratch);
  for (; block < blocks; ++block) run_tile<P, 1>(conv, arena, y, x, block, scratch);
}

template <int P>
int32_t run_pixels_up_to(const Conv& conv, uint8_t* arena, int32_t y, int32_t x, uint8_t* scratch) {
  for (; x + P <= conv.out.width; x += P) run_pixels<P>(conv, arena, y, x, scratch);
  return x;
}

void run_row(const Conv& conv, uint8_t* arena, int32_t y, uint8_t* scratch) {
  int32_t x = 0;
  const bool pairs = kPairPixels > 0 && conv.out.blocks() >= 2;
  if (!pairs) x = run_pixels_up_to<kWidePixels>(conv, arena, y, x, scratch);
  if constexpr (kPairPixels > 0) x = run_pixels_up_to<kPairPixels>(conv, arena, y, x, scratch);
  if constexpr (kWidePixels > 4) x = run_pixels_up_to<4>(conv, arena, y, x, scratch);
  if constexpr (kWidePixels > 2) x = run_pixels_up_to<2>(conv, arena, y, x, scratch);
  run_pixels_up_to<1>(conv, arena, y, x, scratch);
}

}  // namespace

void conv(const Conv& conv, uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch) {
  for (int32_t y = first; y < last; ++y) run_row(conv, arena, y, scratch);
}

size_t conv_scratch(const Conv& conv) { return scratch_bytes(conv); }

}  // namespace edgemeta::EM_NAMESPACE
