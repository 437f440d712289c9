// Tables of 256 entries, y = table[x]: many bytes at a time where all channels share the table.
//
// VBMI (checked when it runs): a table is four registers. Two vpermi2b select among the lower and the upper 128 entries
// by seven bits of x, and the eighth bit selects between the two results.
//
// Otherwise: a table is sixteen rows of sixteen entries, T[0] .. T[15]. pshufb takes the row's entry by the low four
// bits of x, or gives 0 where bit 7 is set. With D[0] = T[0] and D[r] = T[r] ^ T[r - 1], x looked up in D[0], x - 16
// in D[1], x - 32 in D[2] and so on, as signed numbers which saturate at -128: all rows up to x / 16 give their entry
// and those after it 0, so that the exclusive or of all is T[x / 16] at x. That serves x = 0 .. 127; the upper half
// is alike with x - 128 and rows of its own, and each half gives 0 for the other's x.
#include "finish.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// Bytes at which a table is applied: `count` pieces of `size` bytes.
struct Pieces {
  const uint8_t* in;
  uint8_t* out;
  int64_t in_step, out_step;
  int32_t size, count;
};

inline void look_up_each(const uint8_t* table, const Pieces& at) {
  for (int32_t p = 0; p < at.count; ++p) {
    const uint8_t* in = at.in + p * at.in_step;
    uint8_t* out = at.out + p * at.out_step;
    for (int32_t i = 0; i < at.size; ++i) out[i] = table[in[i]];
  }
}

#if defined(EM_ISA_AVX512)

// Loads and stores are no wider than a piece: a load that covers more than a store just before it would wait for it.
__attribute__((target("avx512vbmi"))) void look_up_by_registers(const uint8_t* table, const Pieces& at) {
  const __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64);
  const __m512i c = _mm512_loadu_si512(table + 128), d = _mm512_loadu_si512(table + 192);
  for (int32_t p = 0; p < at.count; ++p) {
    const uint8_t* in = at.in + p * at.in_step;
    uint8_t* out = at.out + p * at.out_step;
    int32_t i = 0;
    for (; i + 64 <= at.size; i += 64) {
      const __m512i x = _mm512_loadu_si512(in + i);
      const __m512i lower = _mm512_permutex2var_epi8(a, x, b), upper = _mm512_permutex2var_epi8(c, x, d);
      _mm512_storeu_si512(out + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), lower, upper));
    }
    for (; i < at.size; i += 16) {
      const __m512i x = _mm512_castsi128_si512(_mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i)));
      const __m512i lower = _mm512_permutex2var_epi8(a, x, b), upper = _mm512_permutex2var_epi8(c, x, d);
      const __m512i y = _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), lower, upper);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm512_castsi512_si128(y));
    }
  }
}

#endif

#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)

// The rows D of a table, each twice: pshufb works within 128 bits.
struct Rows {
  __m256i row[16];

  explicit Rows(const uint8_t* table) {
    __m128i before = _mm_setzero_si128();
    for (int r = 0; r < 16; ++r) {
      const __m128i entries = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table + 16 * r));
      row[r] = _mm256_broadcastsi128_si256(r % 8 == 0 ? entries : _mm_xor_si128(entries, before));
      before = entries;
    }
  }

  INLINE __m256i operator()(__m256i x) const {
    const __m256i step = _mm256_set1_epi8(16);
    __m256i lower = x, upper = _mm256_xor_si256(x, _mm256_set1_epi8(-128));
    __m256i y = _mm256_xor_si256(_mm256_shuffle_epi8(row[0], lower), _mm256_shuffle_epi8(row[8], upper));
    unrolled<7>([&](auto i) INLINE {
      constexpr int r = i.value + 1;
      lower = _mm256_subs_epi8(lower, step);
      upper = _mm256_subs_epi8(upper, step);
      y = _mm256_xor_si256(y, _mm256_shuffle_epi8(row[r], lower));
      y = _mm256_xor_si256(y, _mm256_shuffle_epi8(row[8 + r], upper));
    });
    return y;
  }
};

void look_up_by_rows(const uint8_t* table, const Pieces& at) {
  const Rows rows(table);
  for (int32_t p = 0; p < at.count; ++p) {
    const uint8_t* in = at.in + p * at.in_step;
    uint8_t* out = at.out + p * at.out_step;
    int32_t i = 0;
    for (; i + 32 <= at.size; i += 32)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                          rows(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(in + i))));
    for (; i < at.size; i += 16) {
      const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + i));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm256_castsi256_si128(rows(_mm256_castsi128_si256(x))));
    }
  }
}

#endif

#if defined(EM_ISA_NEON) && defined(__aarch64__)

// tbl gives 0 for a place after the last of its 64 entries, and tbx leaves the byte as it is; x - 64 is such a place
// for x < 64, since it wraps.
void look_up_by_registers(const uint8_t* table, const Pieces& at) {
  const uint8x16x4_t a = vld1q_u8_x4(table), b = vld1q_u8_x4(table + 64);
  const uint8x16x4_t c = vld1q_u8_x4(table + 128), d = vld1q_u8_x4(table + 192);
  const uint8x16_t quarter = vdupq_n_u8(64);
  for (int32_t p = 0; p < at.count; ++p) {
    const uint8_t* in = at.in + p * at.in_step;
    uint8_t* out = at.out + p * at.out_step;
    for (int32_t i = 0; i < at.size; i += 16) {
      uint8x16_t x = vld1q_u8(in + i), y = vqtbl4q_u8(a, x);
      x = vsubq_u8(x, quarter);
      y = vqtbx4q_u8(y, b, x);
      x = vsubq_u8(x, quarter);
      y = vqtbx4q_u8(y, c, x);
      x = vsubq_u8(x, quarter);
      vst1q_u8(out + i, vqtbx4q_u8(y, d, x));
    }
  }
}

#endif

inline void look_up(const uint8_t* table, const Pieces& at) {
  if (at.size % kBlock != 0) return look_up_each(table, at);
#if defined(EM_ISA_AVX512)
  if (__builtin_cpu_supports("avx512vbmi")) return look_up_by_registers(table, at);
#endif
#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)
  look_up_by_rows(table, at);
#elif defined(EM_ISA_NEON) && defined(__aarch64__)
  look_up_by_registers(table, at);
#else
  look_up_each(table, at);
#endif
}

void look_up_channels(const Lookup& op, uint8_t* arena, int32_t y) {
  for (int32_t x = 0; x < op.out.width; ++x) {
    const uint8_t* in = arena + op.in.at(y, x);
    uint8_t* out = arena + op.out.at(y, x);
    for (int32_t c = 0; c < op.out.channels; ++c) out[c] = op.table[c * 256 + in[c]];
  }
}

}  // namespace

// Whole blocks where both tensors have them: what the last one holds after the last channel is never used.
void lookup(const Lookup& op, uint8_t* arena, int32_t first, int32_t last) {
  const int32_t padded = op.out.blocks() * kBlock, size = op.in.pixel % kBlock == 0 ? padded : op.out.channels;
  const bool is_flat = op.in.pixel == padded && op.out.pixel == padded;
  for (int32_t y = first; y < last; ++y) {
    const uint8_t* in = arena + op.in.at(y, 0);
    uint8_t* out = arena + op.out.at(y, 0);
    if (op.per_channel)
      look_up_channels(op, arena, y);
    else if (is_flat)
      look_up(op.table, {in, out, 0, 0, op.out.width * padded, 1});
    else
      look_up(op.table, {in, out, op.in.pixel, op.out.pixel, size, op.out.width});
  }
}

}  // namespace edgemeta::EM_NAMESPACE
