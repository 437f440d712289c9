// Tiles with VNNI on vectors of 512 bits.
//
// Fourteen pixels by two blocks take 28 of the 32 registers; two are left for weights and one for the spread bytes. Of
// a single block sixteen pixels fill two tiles of a row of 32, all of whose results are stored by fours.
// The sizes 1 .. 14 exist, so that a row is divided into tiles of nearly equal sizes: with few pixels the sums wait
// for each other, as one vpdpbusd takes five cycles and two start in each.
#pragma once

#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPixels = 14, kBlocks = 2, kBlockPixels = 16;
constexpr int kColumnBlocks = 8;  // of a tile of one pixel, where maps are that wide: eight streams of weights

struct Vnni {
  using Spread = __m512i;
  using Weights = __m512i;

  static INLINE Spread spread(int32_t four) { return _mm512_set1_epi32(four); }
  static INLINE Weights weights(const void* p) { return _mm512_loadu_si512(p); }
  // GCC would load weights of two pixels twice, and a cycle has time for one load of 64 bytes.
  static INLINE void keep(Weights& w) { asm("" : "+v"(w)); }
  static INLINE void add_products(I32x16& sum, Spread x, Weights w) { sum.v = _mm512_dpbusd_epi32(sum.v, x, w); }
  static INLINE I32x16 a_digit_higher(I32x16 sum) { return {_mm512_slli_epi32(sum.v, 8)}; }
};

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE

#include "tile_vnni.h"
