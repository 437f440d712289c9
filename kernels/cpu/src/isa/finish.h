// From sixteen accumulators to sixteen output integers: requantization.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// One object per method: made once per block, so that its constants stay in registers; called with accumulators. Where
// a method is not kInRange, its results are less by the zero point and still to be clamped to lo .. hi: both are
// cheapest when they are stored, as words and as bytes.

#if !defined(EM_ISA_NEON)

// acc * (scale + scale_rest) + offset, the small part summed first, as an integer (line_value).
struct ByLine {
  static constexpr bool kInRange = false;
  F32x16 scale, scale_rest, offset;

  INLINE ByLine(const Requantize& rq, int32_t block)
      : scale(load(rq.scale + block * kBlock)),
        scale_rest(load(rq.scale_rest + block * kBlock)),
        offset(load(rq.offset + block * kBlock)) {}

  INLINE I32x16 operator()(const I32x16& acc) const {
    const F32x16 x = to_float(acc);
    return line_value(x, scale, multiply_add(x, scale_rest, offset));
  }
};

#endif

#if defined(EM_ISA_NEON)

// The doubled high half of the product, then a rounding shift. With m = multiplier and shift s in all:
// floor((floor(x m / 2**31) + 2**(s - 32)) / 2**(s - 31)) = floor((x m + 2**(s - 1)) / 2**s), since 2**(s - 1) is a
// multiple of 2**31. The planner scales m and s so that s >= 32 and m < 2**31: |result| <= 2**30.
struct ByHighProduct {
  static constexpr bool kInRange = false;
  I32x16 multiplier, left;

  INLINE ByHighProduct(const Requantize& rq, int32_t block)
      : multiplier(load(rq.high_multiplier + block * kBlock)),
        left(negative(load(rq.high_shift + block * kBlock))) {}

  INLINE I32x16 operator()(const I32x16& acc) const { return rounding_shift_left(high_product(acc, multiplier), left); }
};

#endif

// The result fits int32; the clamp comes before the zero point, so that the sum cannot overflow.
struct ByMultiplier {
  static constexpr bool kInRange = true;
  I32x16 multiplier;
  I64x16 half, shift;
  I32x16 lo, hi, zero;

  INLINE ByMultiplier(const Requantize& rq, int32_t block)
      : multiplier(load(rq.multiplier + block * kBlock)),
        half(load(rq.half + block * kBlock)),
        shift(load(rq.shift + block * kBlock)),
        lo(splat(rq.lo - rq.zero)),
        hi(splat(rq.hi - rq.zero)),
        zero(splat(rq.zero)) {}

  INLINE I32x16 operator()(const I32x16& acc) const {
    return min(max(multiply_shift(acc, multiplier, half, shift), lo), hi) + zero;
  }
};

// A rare method, compiled once and not in every kernel: depthwise.cpp for AVX-512 would take a third longer to compile.
struct ByWideMultiplier {
  static constexpr bool kInRange = true;
  const Requantize& rq;
  int32_t block;

  __attribute__((noinline)) I32x16 operator()(const I32x16& acc) const {
    int32_t lane[kBlock];
    store(lane, acc);
    for (int i = 0; i < kBlock; ++i) {
      const int32_t c = block * kBlock + i, j = block * kBlock + i / 2 + i % 2 * 8;
      const int64_t rounded = (int64_t{lane[i]} * rq.multiplier[c] + rq.half[j]) >> rq.shift[j];
      const int64_t lo = rq.lo - rq.zero, hi = rq.hi - rq.zero;
      lane[i] = static_cast<int32_t>(rounded < lo ? lo : rounded > hi ? hi : rounded) + rq.zero;
    }
    return load(lane);
  }
};

// clamp(round(acc, s), -128, 127), half up without overflow. With h = acc >> (s - 1), round(acc, s) = (h + 1) >> 1, and
// h is clamped before 1 is added: to -256 .. 254, which give -128 .. 127. Where s = 0, h = acc and nothing is added.
#if defined(EM_ISA_NEON)
struct TableIndex {
  I32x16 left;

  INLINE TableIndex(const Requantize& rq, int32_t block) : left(negative(load(rq.table_shift + block * kBlock))) {}

  INLINE I32x16 operator()(const I32x16& acc) const { return clamp(rounding_shift_left(acc, left), -128, 127); }
};
#else
struct TableIndex {
  I32x16 one, before, least, greatest;

  INLINE TableIndex(const Requantize& rq, int32_t block)
      : one(min(load(rq.table_shift + block * kBlock), splat(1))),
        before(load(rq.table_shift + block * kBlock) - one),
        least(splat(-128) - one * splat(128)),
        greatest(splat(127) + one * splat(127)) {}

  INLINE I32x16 operator()(const I32x16& acc) const {
    return shift_right(min(max(shift_right(acc, before), least), greatest) + one, one);
  }
};
#endif

struct ByTable {
  static constexpr bool kInRange = true;
  TableIndex index;
  const uint8_t* table;

  ByTable(const Requantize& rq, int32_t block) : index(rq, block), table(rq.table + block * kBlock * 256 + 128) {}

  I32x16 operator()(const I32x16& acc) const {
    int32_t lane[kBlock];
    store(lane, index(acc));
    for (int i = 0; i < kBlock; ++i) lane[i] = static_cast<Byte>(table[i * 256 + lane[i]]);
    return load(lane);
  }
};

#if !defined(EM_ISA_NEON)

struct TableLine {
  F32x16 scale, offset;

  INLINE TableLine(const Requantize& rq, int32_t block)
      : scale(load(rq.scale + block * kBlock)), offset(load(rq.offset + block * kBlock)) {}

  INLINE I32x16 operator()(const I32x16& x) const { return line_value(to_float(x), scale, offset); }
};

struct ByShiftedLine {
  static constexpr bool kInRange = false;
  TableIndex index;
  TableLine line;

  INLINE ByShiftedLine(const Requantize& rq, int32_t block) : index(rq, block), line(rq, block) {}

  INLINE I32x16 operator()(const I32x16& acc) const { return line(index(acc)); }
};

struct ByRoundedLine {
  static constexpr bool kInRange = false;
  I32x16 kept;
  TableLine line;

  INLINE ByRoundedLine(const Requantize& rq, int32_t block)
      : kept(load(rq.kept + block * kBlock)), line(rq, block) {}

  INLINE I32x16 operator()(const I32x16& acc) const { return line(acc & kept); }
};

#endif

#if defined(EM_ISA_NEON)

// (t * slope + start) >> kLineShift for the table's index t, which the planner has compared with all 256 entries.
struct ByIntegerLine {
  static constexpr bool kInRange = false;
  TableIndex index;
  I32x16 slope, start;

  INLINE ByIntegerLine(const Requantize& rq, int32_t block)
      : index(rq, block),
        slope(load(rq.slope + block * kBlock)),
        start(load(rq.start + block * kBlock)) {}

  INLINE I32x16 operator()(const I32x16& acc) const { return shift_right(index(acc) * slope + start, kLineShift); }
};

#endif

// Call `use(finish)`, where finish(acc) gives the output integers of this block's accumulators.
template <typename Use>
INLINE inline void with_method(const Requantize& rq, int32_t block, Use use) {
  switch (rq.method[block]) {
    case Method::raw:
      return;
    case Method::multiplier:
      return use(ByMultiplier(rq, block));
    case Method::wide_multiplier:
      return use(ByWideMultiplier{rq, block});
    case Method::table:
      return use(ByTable(rq, block));
#if !defined(EM_ISA_NEON)
    case Method::line:
      return use(ByLine(rq, block));
    case Method::shifted_line:
      return use(ByShiftedLine(rq, block));
    case Method::rounded_line:
      return use(ByRoundedLine(rq, block));
    case Method::high_product:
    case Method::integer_line:
      return;  // NEON's
#else
    case Method::high_product:
      return use(ByHighProduct(rq, block));
    case Method::integer_line:
      return use(ByIntegerLine(rq, block));
    case Method::line:
    case Method::shifted_line:
    case Method::rounded_line:
      return;  // of others
#endif
  }
}

// Call `use(finish, range)`, for results that are stored by store_bytes with this range.
template <typename Finish, typename Use>
INLINE inline void with_range(const Requantize& rq, const Finish& finish, Use use) {
  constexpr int32_t least = Byte(-1) < 0 ? -128 : 0;
  if constexpr (Finish::kInRange) {
    use(finish, AnyByte());
  } else {
    const bool is_full = rq.lo == least && rq.hi == least + 255;
    is_full ? use(finish, MovedByte(rq.zero)) : use(finish, ByteRange(rq.lo, rq.hi, rq.zero));
  }
}
template <typename Use>
INLINE inline void with_stored_method(const Requantize& rq, int32_t block, Use use) {
  with_method(rq, block, [&](const auto& finish) INLINE { with_range(rq, finish, use); });
}

// Sixteen accumulators as a raw tensor has them.
inline void store_raw(const Requantize& rq, int32_t block, const int32_t* sums, uint8_t* out) {
  int32_t lane[kBlock];
  for (int i = 0; i < kBlock; ++i) lane[i] = sums[i] ^ rq.sign[block * kBlock + i];
  memcpy(out, lane, sizeof lane);
}

// Store sixteen results in the output: int32 for a raw tensor, bytes otherwise.
inline void finish_one(const Requantize& rq, int32_t block, const I32x16& acc, uint8_t* out) {
  if (rq.method[block] == Method::raw) {
    int32_t lane[kBlock];
    store(lane, acc);
    return store_raw(rq, block, lane, out);
  }
  with_stored_method(rq, block,
                     [&](const auto& finish, const auto& range) INLINE { store_bytes(out, finish(acc), range); });
}

// Store result(sums of pixel p) for all pixels, four at a time if possible.
template <typename Result, typename Range>
INLINE inline void store_pixels(uint8_t* to, int64_t step, int32_t pixels, const int32_t* sums, const Range& range,
                                const Result& result) {
  int32_t p = 0;
  for (; p + 4 <= pixels; p += 4, sums += 4 * kBlock)
    store_bytes(to + p * step, step, result(load(sums), p), result(load(sums + kBlock), p + 1),
                result(load(sums + 2 * kBlock), p + 2), result(load(sums + 3 * kBlock), p + 3), range);
  for (; p < pixels; ++p, sums += kBlock) store_bytes(to + p * step, result(load(sums), p), range);
}

// Requantize and store the sums of a block's pixels.
INLINE inline void finish_pixels(const Requantize& rq, int32_t block, uint8_t* to, int64_t step, int32_t pixels,
                                 const int32_t* sums) {
  with_stored_method(rq, block, [&](const auto& finish, const auto& range) INLINE {
    store_pixels(to, step, pixels, sums, range, [&](const I32x16& acc, int32_t) INLINE { return finish(acc); });
  });
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
