// Sixteen int32 lanes in four NEON registers, for 64-bit ARM and for 32-bit ARM with NEON (armv7).
//
// Bytes are signed here: `load_bytes` extends the sign and `store_bytes` clamps to -128 .. 127 (view.h says why).
#pragma once

#include <arm_neon.h>

namespace edgemeta::EM_NAMESPACE {
namespace {

typedef int8_t Byte;

struct I32x16 {
  int32x4_t a, b, c, d;
};

// f applied to each register of the operands.
template <typename F>
INLINE inline I32x16 quarters(const I32x16& x, F f) {
  return {f(x.a), f(x.b), f(x.c), f(x.d)};
}
template <typename F>
INLINE inline I32x16 quarters(const I32x16& x, const I32x16& y, F f) {
  return {f(x.a, y.a), f(x.b, y.b), f(x.c, y.c), f(x.d, y.d)};
}

INLINE inline I32x16 load(const int32_t* p) {
#if defined(__aarch64__)
  const int32x4x4_t all = vld1q_s32_x4(p);
  return {all.val[0], all.val[1], all.val[2], all.val[3]};
#else
  return {vld1q_s32(p), vld1q_s32(p + 4), vld1q_s32(p + 8), vld1q_s32(p + 12)};
#endif
}
INLINE inline I32x16 load_bytes(const uint8_t* p) {
  const int8x16_t bytes = vreinterpretq_s8_u8(vld1q_u8(p));
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
  return {vmovl_s16(vget_low_s16(low)), vmovl_s16(vget_high_s16(low)), vmovl_s16(vget_low_s16(high)),
          vmovl_s16(vget_high_s16(high))};
}
INLINE inline void store(int32_t* p, const I32x16& x) {
  vst1q_s32(p, x.a);
  vst1q_s32(p + 4, x.b);
  vst1q_s32(p + 8, x.c);
  vst1q_s32(p + 12, x.d);
}
// Lanes that a zero point is added to, a byte too, when they are stored: as int16, which takes half the instructions.
struct MovedByte {
  int16x8_t zero;
  explicit MovedByte(int32_t given) : zero(vdupq_n_s16(static_cast<int16_t>(given))) {}
};
struct ByteRange : MovedByte {
  int8x16_t lo, hi;
  ByteRange(int32_t least, int32_t greatest, int32_t given)
      : MovedByte(given),
        lo(vdupq_n_s8(static_cast<int8_t>(least))),
        hi(vdupq_n_s8(static_cast<int8_t>(greatest))) {}
};
INLINE inline int16x8_t moved(int16x8_t words, AnyByte) { return words; }
INLINE inline int16x8_t moved(int16x8_t words, const MovedByte& range) { return vqaddq_s16(words, range.zero); }
INLINE inline int8x16_t within(int8x16_t bytes, AnyByte) { return bytes; }
INLINE inline int8x16_t within(int8x16_t bytes, const MovedByte&) { return bytes; }
INLINE inline int8x16_t within(int8x16_t bytes, const ByteRange& range) {
  return vminq_s8(vmaxq_s8(bytes, range.lo), range.hi);
}
// clamp(zero + lane, -128, 127), then to the range: saturating to 16 bits, before and after the sum, changes nothing.
template <typename Range = AnyByte>
INLINE inline void store_bytes(uint8_t* p, const I32x16& x, const Range& range = {}) {
  const int16x8_t low = moved(vcombine_s16(vqmovn_s32(x.a), vqmovn_s32(x.b)), range);
  const int16x8_t high = moved(vcombine_s16(vqmovn_s32(x.c), vqmovn_s32(x.d)), range);
  const int8x16_t bytes = vcombine_s8(vqmovn_s16(low), vqmovn_s16(high));
  vst1q_u8(p, vreinterpretq_u8_s8(within(bytes, range)));
}
INLINE inline I32x16 splat(int32_t x) { return {vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x), vdupq_n_s32(x)}; }
INLINE inline I32x16 operator+(const I32x16& x, const I32x16& y) { return quarters(x, y, vaddq_s32); }
INLINE inline I32x16 operator-(const I32x16& x, const I32x16& y) { return quarters(x, y, vsubq_s32); }
INLINE inline I32x16 operator*(const I32x16& x, const I32x16& y) { return quarters(x, y, vmulq_s32); }
INLINE inline I32x16 operator&(const I32x16& x, const I32x16& y) { return quarters(x, y, vandq_s32); }
INLINE inline I32x16 min(const I32x16& x, const I32x16& y) { return quarters(x, y, vminq_s32); }
INLINE inline I32x16 max(const I32x16& x, const I32x16& y) { return quarters(x, y, vmaxq_s32); }

// Shifts by a register go to the left, and by negative numbers to the right.
INLINE inline I32x16 negative(const I32x16& x) { return quarters(x, [](int32x4_t v) { return vnegq_s32(v); }); }
INLINE inline I32x16 shift_left(const I32x16& x, const I32x16& n) { return quarters(x, n, vshlq_s32); }
INLINE inline I32x16 shift_right(const I32x16& x, const I32x16& n) { return shift_left(x, negative(n)); }
INLINE inline I32x16 shift_right(const I32x16& x, int n) { return shift_left(x, splat(-n)); }
// floor((x + 2**(-n - 1)) / 2**-n) for n < 0 and x for n = 0: the sum before the shift does not overflow.
INLINE inline I32x16 rounding_shift_left(const I32x16& x, const I32x16& n) { return quarters(x, n, vrshlq_s32); }
// floor(x * y / 2**31), for y >= 0.
INLINE inline I32x16 high_product(const I32x16& x, const I32x16& y) { return quarters(x, y, vqdmulhq_s32); }

// Lanes in their order, two in a register.
struct I64x16 {
  int64x2_t v[8];
};

INLINE inline I64x16 load(const int64_t* p) {
  I64x16 r;
  unrolled<8>([&](auto i) INLINE {
    constexpr int n = i.value;
    r.v[n] = vcombine_s64(vld1_s64(p + n), vld1_s64(p + 8 + n));
  });
  return r;
}

INLINE inline int32x2_t multiply_shift2(int32x2_t x, int32x2_t multiplier, int64x2_t half, int64x2_t shift) {
  const int64x2_t left = vsubq_s64(vdupq_n_s64(0), shift);
  return vmovn_s64(vshlq_s64(vaddq_s64(vmull_s32(x, multiplier), half), left));
}

INLINE inline int32x4_t multiply_shift4(int32x4_t x, int32x4_t multiplier, const int64x2_t* half,
                                        const int64x2_t* shift) {
  return vcombine_s32(multiply_shift2(vget_low_s32(x), vget_low_s32(multiplier), half[0], shift[0]),
                      multiply_shift2(vget_high_s32(x), vget_high_s32(multiplier), half[1], shift[1]));
}

// Low 32 bits of (x * multiplier + half) >> shift in int64.
INLINE inline I32x16 multiply_shift(const I32x16& x, const I32x16& multiplier, const I64x16& half,
                                    const I64x16& shift) {
  return {multiply_shift4(x.a, multiplier.a, half.v, shift.v),
          multiply_shift4(x.b, multiplier.b, half.v + 2, shift.v + 2),
          multiply_shift4(x.c, multiplier.c, half.v + 4, shift.v + 4),
          multiply_shift4(x.d, multiplier.d, half.v + 6, shift.v + 6)};
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
