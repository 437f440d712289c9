// Bit planes: cutting them from bytes, and counting the bits that two planes have in common.
//
// `Counts` holds, for sixteen channels, how many bits of the words given so far were 1 in the AND of a word of weights
// and one of activations; kMostWords words at most go in before total(). `kCopies` words are kept for each 32
// activations of a plane: AVX2 counts by halves of bytes, so it also keeps the word shifted right by 4.
#pragma once

#include "../vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

#if defined(EM_ISA_AVX512)

// vpopcntd. The planner has checked that the machine has VPOPCNTDQ, and this file's functions are compiled for it.
constexpr int kCopies = 1, kPlaneSums = 24, kMostWords = 1 << 26;

struct Weights {
  __m512i bits;
  INLINE explicit Weights(const uint32_t* p) : bits(_mm512_loadu_si512(p)) {}
};

struct Counts {
  __m512i sum;
  INLINE Counts() : sum(_mm512_setzero_si512()) {}
  INLINE void add(const Weights& w, const uint32_t* x) {
    const __m512i common = _mm512_and_si512(w.bits, _mm512_set1_epi32(static_cast<int32_t>(*x)));
    sum = _mm512_add_epi32(sum, _mm512_popcnt_epi32(common));
  }
  INLINE I32x16 total() const { return {sum}; }
};

constexpr int kCut = 64;  // bytes that `cut` takes

// Plane j of 64 bytes, each less `low`: word i of it goes to planes[j * kCopies + i * stride].
INLINE inline void cut(const uint8_t* bytes, int32_t low, int32_t count, uint32_t* planes, int64_t stride) {
  const __m512i x = _mm512_sub_epi8(_mm512_loadu_si512(bytes), _mm512_set1_epi8(static_cast<char>(low)));
  for (int32_t j = 0; j < count; ++j) {
    const uint64_t bits = _mm512_test_epi8_mask(x, _mm512_set1_epi8(static_cast<char>(1 << j)));
    planes[j] = static_cast<uint32_t>(bits);
    planes[j + stride] = static_cast<uint32_t>(bits >> 32);
  }
}

#elif defined(EM_ISA_AVX2)

// vpshufb counts the bits of half a byte; bytes hold the sums of 31 words of at most 8.
constexpr int kCopies = 2, kPlaneSums = 4, kMostWords = 31;

struct Weights {
  __m256i low_a, low_b, high_a, high_b;  // halves of bytes
  INLINE explicit Weights(const uint32_t* p) {
    const __m256i a = load8(p), b = load8(p + 8), half = _mm256_set1_epi8(15);
    low_a = _mm256_and_si256(a, half);
    low_b = _mm256_and_si256(b, half);
    high_a = _mm256_and_si256(_mm256_srli_epi16(a, 4), half);
    high_b = _mm256_and_si256(_mm256_srli_epi16(b, 4), half);
  }
};

struct Counts {
  __m256i a = _mm256_setzero_si256(), b = _mm256_setzero_si256();
  INLINE void add(const Weights& w, const uint32_t* x) {
    const __m256i ones = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2,
                                          2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi32(static_cast<int32_t>(x[0]));
    const __m256i high = _mm256_set1_epi32(static_cast<int32_t>(x[1]));
    const auto of = [&](__m256i half, __m256i of_x) INLINE {
      return _mm256_shuffle_epi8(ones, _mm256_and_si256(half, of_x));
    };
    a = _mm256_add_epi8(a, _mm256_add_epi8(of(w.low_a, low), of(w.high_a, high)));
    b = _mm256_add_epi8(b, _mm256_add_epi8(of(w.low_b, low), of(w.high_b, high)));
  }
  // The four bytes of each lane, summed.
  INLINE I32x16 total() const {
    const __m256i bytes = _mm256_set1_epi8(1), words = _mm256_set1_epi16(1);
    return {_mm256_madd_epi16(_mm256_maddubs_epi16(a, bytes), words),
            _mm256_madd_epi16(_mm256_maddubs_epi16(b, bytes), words)};
  }
};

constexpr int kCut = 32;

INLINE inline void cut(const uint8_t* bytes, int32_t low, int32_t count, uint32_t* planes, int64_t) {
  const __m256i x = _mm256_sub_epi8(load8(bytes), _mm256_set1_epi8(static_cast<char>(low)));
  for (int32_t j = 0; j < count; ++j) {
    const __m256i top = _mm256_sll_epi16(x, _mm_cvtsi32_si128(7 - j));  // bit j becomes its byte's top bit
    const auto bits = static_cast<uint32_t>(_mm256_movemask_epi8(top));
    planes[j * kCopies] = bits;
    planes[j * kCopies + 1] = bits >> 4;
  }
}

#elif defined(EM_ISA_NEON)

// cnt counts the bits of each byte; bytes hold the sums of 31 words of at most 8.
#if defined(__aarch64__)
constexpr int kCopies = 1, kPlaneSums = 4, kMostWords = 31;
#else
constexpr int kCopies = 1, kPlaneSums = 2, kMostWords = 31;
#endif

struct Weights {
  uint8x16_t bits[4];
  INLINE explicit Weights(const uint32_t* p) {
    unrolled<4>([&](auto i) INLINE { bits[i.value] = vreinterpretq_u8_u32(vld1q_u32(p + 4 * i.value)); });
  }
};

struct Counts {
  uint8x16_t sum[4];
  INLINE Counts() {
    unrolled<4>([&](auto i) INLINE { sum[i.value] = vdupq_n_u8(0); });
  }
  INLINE void add(const Weights& w, const uint32_t* x) {
    const uint8x16_t word = vreinterpretq_u8_u32(vdupq_n_u32(*x));
    unrolled<4>([&](auto i) INLINE {
      sum[i.value] = vaddq_u8(sum[i.value], vcntq_u8(vandq_u8(w.bits[i.value], word)));
    });
  }
  INLINE I32x16 total() const {
    uint32_t lanes[kBlock];
    unrolled<4>([&](auto i) INLINE { vst1q_u32(lanes + 4 * i.value, vpaddlq_u16(vpaddlq_u8(sum[i.value]))); });
    int32_t counts[kBlock];
    memcpy(counts, lanes, sizeof counts);
    return load(counts);
  }
};

constexpr int kCut = 32;

// Sums of neighbouring bytes: those of a, then those of b.
INLINE inline uint8x16_t add_pairs(uint8x16_t a, uint8x16_t b) {
#if defined(__aarch64__)
  return vpaddq_u8(a, b);
#else
  return vcombine_u8(vpadd_u8(vget_low_u8(a), vget_high_u8(a)), vpadd_u8(vget_low_u8(b), vget_high_u8(b)));
#endif
}

// Each byte becomes its own bit of a byte where its plane is 1; eight neighbours are then added.
INLINE inline void cut(const uint8_t* bytes, int32_t low, int32_t count, uint32_t* planes, int64_t) {
  const uint8x16_t least = vdupq_n_u8(static_cast<uint8_t>(low));
  const uint8x16_t a = vsubq_u8(vld1q_u8(bytes), least), b = vsubq_u8(vld1q_u8(bytes + 16), least);
  const uint8x16_t places = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201u));
  uint8x16_t plane = vdupq_n_u8(1);
  for (int32_t j = 0; j < count; ++j, plane = vaddq_u8(plane, plane)) {
    uint8x16_t sums = add_pairs(vandq_u8(vtstq_u8(a, plane), places), vandq_u8(vtstq_u8(b, plane), places));
    sums = add_pairs(sums, sums);
    sums = add_pairs(sums, sums);
    planes[j] = vgetq_lane_u32(vreinterpretq_u32_u8(sums), 0);
  }
}

#else

// Sums of neighbouring bits, pairs and halves of bytes; bytes hold the sums of 31 words.
constexpr int kCopies = 1, kPlaneSums = 2, kMostWords = 31;

struct Weights {
  const uint32_t* bits;
  explicit Weights(const uint32_t* p) : bits(p) {}
};

struct Counts {
  uint32_t sum[kBlock] = {};
  void add(const Weights& w, const uint32_t* x) {
    const uint32_t word = *x;
    for (int i = 0; i < kBlock; ++i) {
      uint32_t v = w.bits[i] & word;
      v -= v >> 1 & 0x55555555u;
      v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
      sum[i] += (v + (v >> 4)) & 0x0F0F0F0Fu;
    }
  }
  I32x16 total() const {
    return lanes([&](int i) {
      const uint32_t pairs = (sum[i] & 0x00FF00FFu) + (sum[i] >> 8 & 0x00FF00FFu);
      return static_cast<int32_t>((pairs & 0xFFFFu) + (pairs >> 16));
    });
  }
};

constexpr int kCut = 32;

// Eight bytes of 0 or 1, times a constant whose bits move each to the top byte, are eight bits.
inline void cut(const uint8_t* bytes, int32_t low, int32_t count, uint32_t* planes, int64_t) {
  uint8_t x[kCut];
  for (int i = 0; i < kCut; ++i) x[i] = static_cast<uint8_t>(bytes[i] - low);
  for (int32_t j = 0; j < count; ++j) {
    uint32_t bits_of_plane = 0;
    for (int i = 0; i < kCut / 8; ++i) {
      uint64_t eight = 0;
      for (int b = 0; b < 8; ++b) eight |= uint64_t{x[8 * i + b]} << 8 * b;
      eight = eight >> j & 0x0101010101010101u;
      bits_of_plane |= static_cast<uint32_t>(eight * 0x0102040810204080u >> 56) << 8 * i;
    }
    planes[j] = bits_of_plane;
  }
}

#endif

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
