// Tables in registers of AVX-512 VBMI: a table is four of them. Two vpermi2b select among the lower and the upper 128
// entries by seven bits of x, and the eighth bit selects between the two results.
#include "lookup_tiles.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

struct Vbmi {
  using V = __m512i;
  static constexpr int kLanes = 4, kGroups = 1;
  static constexpr bool kHoldsTile = true;

  struct Table {
    __m512i a, b, c, d;
    INLINE explicit Table(const uint8_t* table)
        : a(_mm512_loadu_si512(table)),
          b(_mm512_loadu_si512(table + 64)),
          c(_mm512_loadu_si512(table + 128)),
          d(_mm512_loadu_si512(table + 192)) {}
    INLINE void look_up(V (&x)[1]) const {
      const V lower = _mm512_permutex2var_epi8(a, x[0], b), upper = _mm512_permutex2var_epi8(c, x[0], d);
      x[0] = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x[0]), lower, upper);
    }
  };

  static INLINE V load(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static INLINE void store(uint8_t* p, V v) { _mm512_storeu_si512(p, v); }
  static INLINE __m128i load_16(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static INLINE V load_lane(const uint8_t* p) { return _mm512_castsi128_si512(load_16(p)); }
  static INLINE void store_lane(uint8_t* p, V v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_castsi512_si128(v));
  }
  // Lanes `step` bytes apart.
  static INLINE V load_lanes(const uint8_t* p, int64_t step) {
    V v = load_lane(p);
    v = _mm512_inserti32x4(v, load_16(p + step), 1);
    v = _mm512_inserti32x4(v, load_16(p + 2 * step), 2);
    return _mm512_inserti32x4(v, load_16(p + 3 * step), 3);
  }
  static INLINE void store_lanes(uint8_t* p, int64_t step, V v) {
    store_lane(p, v);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + step), _mm512_extracti32x4_epi32(v, 1));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 2 * step), _mm512_extracti32x4_epi32(v, 2));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 3 * step), _mm512_extracti32x4_epi32(v, 3));
  }
  // Lane b of vector p becomes lane p of vector b.
  static INLINE void transpose_lanes(V (&z)[4]) {
    const V a = _mm512_shuffle_i32x4(z[0], z[1], 0x44), b = _mm512_shuffle_i32x4(z[0], z[1], 0xee);
    const V c = _mm512_shuffle_i32x4(z[2], z[3], 0x44), d = _mm512_shuffle_i32x4(z[2], z[3], 0xee);
    z[0] = _mm512_shuffle_i32x4(a, c, 0x88);
    z[1] = _mm512_shuffle_i32x4(a, c, 0xdd);
    z[2] = _mm512_shuffle_i32x4(b, d, 0x88);
    z[3] = _mm512_shuffle_i32x4(b, d, 0xdd);
  }
  static INLINE V zip_low(V a, V b) { return _mm512_unpacklo_epi8(a, b); }
  static INLINE V zip_high(V a, V b) { return _mm512_unpackhi_epi8(a, b); }
};

}  // namespace

void look_up_vbmi(const uint8_t* table, const Pieces& at) { look_up_pieces<Vbmi>(table, at); }
void look_up_run_vbmi(const uint8_t* tables, const PixelRun& at) {
  if (at.blocks == 1) return look_up_run<Vbmi, 1>(tables, at);
  look_up_run<Vbmi, Vbmi::kLanes>(tables, at);
}

}  // namespace edgemeta::EM_NAMESPACE
