// Tables of 256 entries, y = table[x], on the rows of a tensor.
//
// Without VBMI (lookup_vbmi.cpp) a table is sixteen rows of sixteen entries, T[0] .. T[15]. pshufb takes the row's
// entry by the low four bits of x, or gives 0 where bit 7 is set. With D[0] = T[0] and D[r] = T[r] ^ T[r - 1], x looked
// up in D[0], x - 16 in D[1], x - 32 in D[2] and so on, as signed numbers which saturate at -128: all rows up to x / 16
// give their entry and those after it 0, so that the exclusive or of all is T[x / 16] at x. That serves x = 0 .. 127;
// the upper half is alike with x - 128 and rows of its own, and each half gives 0 for the other's x. Packed is a table
// of which the rows D are stored.
#include "finish.h"
#include "lookup_tiles.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)

struct Registers {
  using V = __m256i;
  static constexpr int kLanes = 2, kGroups = 2;
  static constexpr bool kHoldsTile = false;

  // The rows D of a table, each twice: pshufb works within 128 bits.
  struct Table {
    V row[16];

    INLINE explicit Table(const uint8_t* table) {
      for (int r = 0; r < 16; ++r) row[r] = _mm256_broadcastsi128_si256(load_16(table + 16 * r));
    }

    template <int kCount>
    INLINE void look_up(V (&x)[kCount]) const {
      const V step = _mm256_set1_epi8(16);
      V upper[kCount], y[kCount];
      unrolled<kCount>([&](auto i) INLINE {
        upper[i.value] = _mm256_xor_si256(x[i.value], _mm256_set1_epi8(-128));
        y[i.value] = _mm256_setzero_si256();
      });
      unrolled<8>([&](auto r) INLINE {
        unrolled<kCount>([&](auto i) INLINE {
          y[i.value] = _mm256_xor_si256(y[i.value], _mm256_shuffle_epi8(row[r.value], x[i.value]));
          y[i.value] = _mm256_xor_si256(y[i.value], _mm256_shuffle_epi8(row[8 + r.value], upper[i.value]));
          x[i.value] = _mm256_subs_epi8(x[i.value], step);
          upper[i.value] = _mm256_subs_epi8(upper[i.value], step);
        });
      });
      unrolled<kCount>([&](auto i) INLINE { x[i.value] = y[i.value]; });
    }
  };

  // From rows T to rows D, the last first.
  static void pack(uint8_t* table) {
    for (int r = 15; r > 0; --r)
      if (r != 8) store_16(table + 16 * r, _mm_xor_si128(load_16(table + 16 * r), load_16(table + 16 * r - 16)));
  }

  static INLINE __m128i load_16(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
  static INLINE void store_16(uint8_t* p, __m128i v) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), v); }
  static INLINE V load(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const V*>(p)); }
  static INLINE void store(uint8_t* p, V v) { _mm256_storeu_si256(reinterpret_cast<V*>(p), v); }
  static INLINE V load_lane(const uint8_t* p) { return _mm256_castsi128_si256(load_16(p)); }
  static INLINE void store_lane(uint8_t* p, V v) { store_16(p, _mm256_castsi256_si128(v)); }
  // Lanes `step` bytes apart.
  static INLINE V load_lanes(const uint8_t* p, int64_t step) {
    return _mm256_inserti128_si256(load_lane(p), load_16(p + step), 1);
  }
  static INLINE void store_lanes(uint8_t* p, int64_t step, V v) {
    store_lane(p, v);
    store_16(p + step, _mm256_extracti128_si256(v, 1));
  }
  // Lane b of vector p becomes lane p of vector b.
  static INLINE void transpose_lanes(V (&z)[2]) {
    const V first = _mm256_permute2x128_si256(z[0], z[1], 0x20);
    z[1] = _mm256_permute2x128_si256(z[0], z[1], 0x31);
    z[0] = first;
  }
  static INLINE V zip_low(V a, V b) { return _mm256_unpacklo_epi8(a, b); }
  static INLINE V zip_high(V a, V b) { return _mm256_unpackhi_epi8(a, b); }
};
#define EM_HAS_REGISTERS

#elif defined(EM_ISA_NEON) && defined(__aarch64__)

struct Registers {
  using V = uint8x16_t;
  static constexpr int kLanes = 1, kGroups = 4;
  static constexpr bool kHoldsTile = false;

  // tbl gives 0 for a place after the last of its 64 entries, and tbx leaves the byte as it is; x - 64 is such a place
  // for x < 64, since it wraps.
  struct Table {
    uint8x16x4_t a, b, c, d;
    INLINE explicit Table(const uint8_t* table)
        : a(vld1q_u8_x4(table)), b(vld1q_u8_x4(table + 64)), c(vld1q_u8_x4(table + 128)), d(vld1q_u8_x4(table + 192)) {}
    template <int kCount>
    INLINE void look_up(V (&bytes)[kCount]) const {
      const V quarter = vdupq_n_u8(64);
      unrolled<kCount>([&](auto i) INLINE {
        V x = bytes[i.value], y = vqtbl4q_u8(a, x);
        x = vsubq_u8(x, quarter);
        y = vqtbx4q_u8(y, b, x);
        x = vsubq_u8(x, quarter);
        y = vqtbx4q_u8(y, c, x);
        x = vsubq_u8(x, quarter);
        bytes[i.value] = vqtbx4q_u8(y, d, x);
      });
    }
  };

  static void pack(uint8_t*) {}
  static INLINE V load(const uint8_t* p) { return vld1q_u8(p); }
  static INLINE void store(uint8_t* p, V v) { vst1q_u8(p, v); }
  static INLINE V load_lane(const uint8_t* p) { return load(p); }
  static INLINE void store_lane(uint8_t* p, V v) { store(p, v); }
  static INLINE V load_lanes(const uint8_t* p, int64_t) { return load(p); }
  static INLINE void store_lanes(uint8_t* p, int64_t, V v) { store(p, v); }
  static INLINE V zip_low(V a, V b) { return vzip1q_u8(a, b); }
  static INLINE V zip_high(V a, V b) { return vzip2q_u8(a, b); }
};
#define EM_HAS_REGISTERS

#endif

#if defined(EM_ISA_AVX512)
bool has_vbmi() { return __builtin_cpu_supports("avx512vbmi"); }
#endif

void look_up(const uint8_t* table, const Pieces& at) {
  if (at.size % kBlock != 0) return look_up_each(table, at);
#if defined(EM_ISA_AVX512)
  if (has_vbmi()) return look_up_vbmi(table, at);
#endif
#if defined(EM_HAS_REGISTERS)
  alignas(32) uint8_t packed[kTableBytes];
  memcpy(packed, table, kTableBytes);
  Registers::pack(packed);
  look_up_pieces<Registers>(packed, at);
#else
  look_up_each(table, at);
#endif
}

// Blocks of channels that are looked up together.
int32_t blocks_at_once() {
#if defined(EM_ISA_AVX512)
  if (has_vbmi()) return 4;
#endif
#if defined(EM_HAS_REGISTERS)
  return Registers::kLanes;
#else
  return 1;
#endif
}

void look_up_channels(const uint8_t* tables, const PixelRun& at) {
#if defined(EM_ISA_AVX512)
  if (has_vbmi()) return look_up_run_vbmi(tables, at);
#endif
#if defined(EM_HAS_REGISTERS)
  if (at.blocks == 1) return look_up_run<Registers, 1>(tables, at);
  look_up_run<Registers, Registers::kLanes>(tables, at);
#else
  look_up_channels_each(tables, at, kBlock);
#endif
}

// Some blocks of channels at a time, with 4 KB of tables each. Rows are one run of pixels where nothing is between
// them, or what is may be overwritten.
void lookup_of_channels(const Lookup& op, uint8_t* arena, int32_t first, int32_t last) {
  const View &from = op.in, &to = op.out;
  const bool has_blocks = from.pixel % kBlock == 0;
  const bool is_dense = from.row == int64_t{from.width} * from.pixel && to.row == int64_t{to.width} * to.pixel;
  const bool is_one_run = is_dense || op.joins_rows;
  const auto rows = is_one_run ? 1 : last - first;
  const auto pixels = is_one_run ? static_cast<int32_t>((last - first - 1) * (to.row / to.pixel)) + to.width : to.width;
  const int32_t many = blocks_at_once();
  for (int32_t block = 0, blocks; block < to.blocks(); block += blocks) {
    blocks = to.blocks() - block < many ? 1 : many;
    const int32_t channel = block * kBlock;
    const uint8_t* tables = op.table + channel * kTableBytes;
    for (int32_t y = first; y < first + rows; ++y) {
      const uint8_t* in = arena + from.at(y, 0) + channel;
      const PixelRun run{in, arena + to.at(y, 0) + channel, from.pixel, to.pixel, pixels, blocks};
      if (has_blocks)
        look_up_channels(tables, run);
      else
        look_up_channels_each(tables, run, smaller(blocks * kBlock, to.channels - channel));
    }
  }
}

}  // namespace

void pack_tables([[maybe_unused]] uint8_t* tables, [[maybe_unused]] int64_t count) {
#if defined(EM_ISA_AVX512)
  if (has_vbmi()) return;
#endif
#if defined(EM_HAS_REGISTERS)
  for (int64_t i = 0; i < count; ++i) Registers::pack(tables + i * kTableBytes);
#endif
}

// Whole blocks where both tensors have them: what the last one holds after the last channel is never used.
void lookup(const Lookup& op, uint8_t* arena, int32_t first, int32_t last) {
  if (op.per_channel) return lookup_of_channels(op, arena, first, last);
  const int32_t padded = op.out.blocks() * kBlock, size = op.in.pixel % kBlock == 0 ? padded : op.out.channels;
  const bool is_flat = op.in.pixel == padded && op.out.pixel == padded;
  for (int32_t y = first; y < last; ++y) {
    const uint8_t* in = arena + op.in.at(y, 0);
    uint8_t* out = arena + op.out.at(y, 0);
    if (is_flat)
      look_up(op.table, {in, out, 0, 0, op.out.width * padded, 1});
    else
      look_up(op.table, {in, out, op.in.pixel, op.out.pixel, size, op.out.width});
  }
}

}  // namespace edgemeta::EM_NAMESPACE
