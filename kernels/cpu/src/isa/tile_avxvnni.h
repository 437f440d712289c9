// Tiles with VNNI on vectors of 256 bits, two for a block of sixteen channels.
//
// Six sums of sixteen lanes take twelve of the sixteen registers, two hold weights and one the spread bytes. One
// vpdpbusd takes four or five cycles and two start in each, so twelve keep them busy.
#pragma once

#include "vnni.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kPixels = 6, kBlocks = 1, kBlockPixels = kPixels;
constexpr int kColumnBlocks = 6;  // of a tile of one pixel, where maps are that wide

struct Vnni {
  using Spread = __m256i;
  struct Weights {
    __m256i a, b;
  };

  static INLINE Spread spread(int32_t four) { return _mm256_set1_epi32(four); }
  static INLINE Weights weights(const void* p) { return {load8(p), load8(static_cast<const uint8_t*>(p) + 32)}; }
  static INLINE void keep(Weights&) {}
  static INLINE void add_products(I32x16& sum, Spread x, const Weights& w) {
    sum = {edgemeta::EM_NAMESPACE::add_products(sum.a, x, w.a), edgemeta::EM_NAMESPACE::add_products(sum.b, x, w.b)};
  }
  static INLINE I32x16 a_digit_higher(I32x16 sum) { return {_mm256_slli_epi32(sum.a, 8), _mm256_slli_epi32(sum.b, 8)}; }
};

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE

#include "tile_vnni.h"
