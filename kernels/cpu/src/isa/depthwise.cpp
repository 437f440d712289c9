// Depthwise convolution: every channel has a kernel of its own. Sixteen channels and four pixels of a row at a time.
#include "finish.h"
#include "table.h"

#if defined(EM_ISA_AVX512)
#include "column_avx512.h"
#include "taps_avx512.h"
#elif defined(EM_ISA_AVXVNNI)
#include "column_avxvnni.h"
#include "taps_avx2.h"
#elif defined(EM_ISA_AVX2)
#include "taps_avx2.h"
#elif defined(EM_ISA_NEON)
#if defined(EM_ISA_DOTPROD) || defined(EM_ISA_I8MM)
#include "column_arm.h"
#endif
#include "taps_neon.h"
#else
#include "taps_portable.h"
#endif

#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVXVNNI) || defined(EM_ISA_DOTPROD) || defined(EM_ISA_I8MM)
#define EM_HAS_COLUMNS
#include "columns.h"
#endif

namespace edgemeta::EM_NAMESPACE {
namespace {

// One row of one block of channels. The constants of `finish` and `taps` stay in registers.
template <typename Taps, typename Finish, typename Range>
INLINE inline void run_row(const Depthwise& conv, uint8_t* arena, int32_t y, int32_t block, const Taps& taps,
                           const Finish& finish, const Range& range) {
  const Window& win = conv.window;
  const uint8_t* in = arena + conv.in.at(int64_t{y} * win.stride_y - win.top, -win.left) + block * kBlock;
  uint8_t* to = arena + conv.out.at(y, 0) + block * kBlock;
  const int64_t in_step = int64_t{win.stride_x} * conv.in.pixel, step = conv.out.pixel;
  constexpr int kJoint = Taps::kPixels;
  int32_t x = 0;
  for (; x + 4 <= conv.out.width; x += 4, in += 4 * in_step, to += 4 * step) {
    I32x16 acc[4];
    unrolled<4 / kJoint>([&](auto i) INLINE {
      constexpr int first = i.value * kJoint;
      taps.accumulate(in + first * in_step, acc + first);
    });
    store_bytes(to, step, finish(acc[0]), finish(acc[1]), finish(acc[2]), finish(acc[3]), range);
  }
  while (x < conv.out.width) {
    I32x16 acc[kJoint];
    taps.accumulate(in, acc);
    for (int32_t i = 0; i < kJoint && x < conv.out.width; ++i, ++x, in += in_step, to += step)
      store_bytes(to, finish(acc[i]), range);
  }
}

template <typename Taps>
void run_rows(const Depthwise& conv, uint8_t* arena, int32_t first, int32_t last) {
  for (int32_t y = first; y < last; ++y)
    for (int32_t block = 0; block < conv.out.blocks(); ++block)
      with_stored_method(conv.requantize, block, [&](const auto& finish, const auto& range) INLINE {
        run_row(conv, arena, y, block, Taps(conv, block), finish, range);
      });
}

}  // namespace

void depthwise(const Depthwise& conv, uint8_t* arena, int32_t first, int32_t last) {
#if defined(EM_HAS_COLUMNS)
  if (by_columns(conv)) return run_by_columns(conv, arena, first, last);
#endif
  with_taps(conv, [&](auto taps) { run_rows<typename decltype(taps)::Of>(conv, arena, first, last); });
}

bool can_depthwise(const Depthwise& conv, int32_t least, int32_t greatest) {
  return least >= kLeastTap && greatest <= kGreatestTap && fits_taps(conv);
}

size_t depthwise_bytes(const Depthwise& conv) {
#if defined(EM_HAS_COLUMNS)
  if (by_columns(conv)) return columns_bytes(conv);
#endif
  return taps_bytes(conv);
}

void pack_depthwise(const Depthwise& conv, const int32_t* weights, uint8_t* packed) {
#if defined(EM_HAS_COLUMNS)
  if (by_columns(conv)) return pack_columns(conv, weights, packed);
#endif
  pack_taps(conv, weights, packed);
}

}  // namespace edgemeta::EM_NAMESPACE
