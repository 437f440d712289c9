// Area resize in exact integers: weighted sums down the columns, then along the row, then one division.
#include "resize_sums.h"
#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

typedef uint32_t U32x4 __attribute__((vector_size(16)));

inline int32_t covered(const Axis& axis) { return axis.start[axis.size - 1] + axis.count[axis.size - 1]; }

// sums[x] (+)= weighted sum of four rows.
template <typename Sum>
inline void add_four(Sum* __restrict sums, const uint8_t* const rows[4], const int32_t weights[4], int64_t width,
                     bool first) {
  const uint8_t *a = rows[0], *b = rows[1], *c = rows[2], *d = rows[3];
  const Sum wa = static_cast<Sum>(weights[0]), wb = static_cast<Sum>(weights[1]), wc = static_cast<Sum>(weights[2]),
            wd = static_cast<Sum>(weights[3]);
  if (first)
    for (int64_t x = 0; x < width; ++x) sums[x] = static_cast<Sum>(wa * a[x] + wb * b[x] + wc * c[x] + wd * d[x]);
  else
    for (int64_t x = 0; x < width; ++x)
      sums[x] = static_cast<Sum>(sums[x] + wa * a[x] + wb * b[x] + wc * c[x] + wd * d[x]);
}

// Sums of the source rows under output row `row`, for every byte of a source row.
template <typename Sum>
void sum_rows(const Resize& resize, const uint8_t* crop, int64_t row_bytes, int32_t row, Sum* sums) {
  const int64_t width = int64_t{covered(resize.columns)} * resize.channels;
  const int32_t count = resize.rows.count[row];
  const int32_t* weights = resize.rows.weights + resize.rows.first[row];
  const uint8_t* source = crop + resize.rows.start[row] * row_bytes;
  for (int32_t i = 0; i < count; i += 4) {
    const uint8_t* rows[4];
    int32_t four[4];
    for (int32_t j = 0; j < 4; ++j) {  // a missing row has weight 0
      const bool there = i + j < count;
      rows[j] = source + (there ? i + j : i) * row_bytes;
      four[j] = there ? weights[i + j] : 0;
    }
    add_four(sums, rows, four, width, i == 0);
  }
}

// Sums of column sums under each output pixel. Three channels use four lanes: the fourth belongs to the next pixel and
// is ignored.
template <typename Column>
void sum_columns(const Resize& resize, const Column* sums, uint32_t* out) {
  const Axis& columns = resize.columns;
  for (int32_t j = 0; j < columns.size; ++j) {
    const int32_t count = columns.count[j];
    const int32_t* weights = columns.weights + columns.first[j];
    const Column* from = sums + int64_t{columns.start[j]} * resize.channels;
    if (resize.channels == 1) {
      uint32_t total = 0;
      for (int32_t i = 0; i < count; ++i) total += static_cast<uint32_t>(weights[i]) * from[i];
      out[j] = total;
      continue;
    }
    U32x4 total[2] = {};
    for (int32_t i = 0; i < count; ++i, from += 3) {
      typedef Column Four __attribute__((vector_size(4 * sizeof(Column))));
      Four four;
      memcpy(&four, from, sizeof four);
      total[i % 2] += __builtin_convertvector(four, U32x4) * static_cast<uint32_t>(weights[i]);
    }
    total[0] += total[1];
    for (int32_t c = 0; c < 3; ++c) out[3 * j + c] = total[0][c];
  }
}

void sum_columns_wide(const Resize& resize, const uint32_t* sums, uint64_t* out) {
  const Axis& columns = resize.columns;
  for (int32_t j = 0; j < columns.size; ++j) {
    const int32_t* weights = columns.weights + columns.first[j];
    for (int32_t c = 0; c < resize.channels; ++c) {
      const uint32_t* from = sums + int64_t{columns.start[j]} * resize.channels + c;
      uint64_t total = 0;
      for (int32_t i = 0; i < columns.count[j]; ++i)
        total += static_cast<uint64_t>(weights[i]) * from[int64_t{i} * resize.channels];
      out[j * resize.channels + c] = total;
    }
  }
}

// floor(n / d), at most 255, for n = 2 S + A and d = 2 A, as floor((n + 1/2) * (1 / d)). The exact product is at least
// 1 / (2 d) from any integer, and rounding moves it by less than 256 * 2 * 2**-24 in float, 256 * 2 * 2**-53 in double.
// So float gives the floor for A < 2**13, where n + 1/2 < 2**22 is exact, too, and double for A < 2**42.
template <typename Real, typename Signed, typename Total>
void divide(const Total* __restrict totals, int32_t count, int64_t area, uint8_t* __restrict out) {
  const Real inverse = Real{1} / static_cast<Real>(2 * area);
  const auto half = static_cast<Total>(area);
  for (int32_t i = 0; i < count; ++i) {
    const auto numerator = static_cast<Signed>(2 * totals[i] + half);
    out[i] = static_cast<uint8_t>(static_cast<int32_t>((static_cast<Real>(numerator) + Real{0.5}) * inverse));
  }
}

// Column sums, with room for vectors that read past the last one, then totals of the widest kind.
size_t column_sum_bytes(const Resize& resize) {
  return (static_cast<size_t>(covered(resize.columns)) * static_cast<size_t>(resize.channels) + 32) * 4;
}

// Sums of the source rows, with vectors for the usual frame. rows.total is at most 257.
void sum_rows_fast(const Resize& resize, const uint8_t* crop, int64_t row_bytes, int32_t row, uint16_t* sums) {
#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)
  const int64_t width = int64_t{covered(resize.columns)} * resize.channels;
  if (width >= kBytes && resize.greatest_row_weight <= 64) {
    const int32_t* weights = resize.rows.weights + resize.rows.first[row];
    const uint8_t* source = crop + resize.rows.start[row] * row_bytes;
    return sum_rows_by_pairs(source, row_bytes, weights, resize.rows.count[row], width, sums);
  }
#endif
  sum_rows(resize, crop, row_bytes, row, sums);
}

void sum_columns_fast(const Resize& resize, const uint16_t* sums, uint32_t* totals) {
#if defined(EM_ISA_AVX512) || defined(EM_ISA_AVX2)
  if (resize.channels == 3 && resize.greatest_column_weight <= INT16_MAX)
    return sum_columns_by_fours(resize, sums, totals);
#endif
  sum_columns(resize, sums, totals);
}

constexpr int64_t kFloatArea = 1 << 13;

}  // namespace

size_t resize_scratch(const Resize& resize) {
  return column_sum_bytes(resize) + static_cast<size_t>(resize.columns.size * resize.channels + 1) * 8;
}

void resize_row(const Resize& resize, const uint8_t* crop, int64_t row_bytes, int32_t row, uint8_t* out,
                uint8_t* scratch) {
  const int64_t area = int64_t{resize.rows.total} * resize.columns.total;
  const int32_t count = resize.columns.size * resize.channels;
  uint8_t* after = scratch + column_sum_bytes(resize);
  auto* words = reinterpret_cast<uint16_t*>(scratch);
  auto *wide = reinterpret_cast<uint32_t*>(scratch), *totals = reinterpret_cast<uint32_t*>(after);
  if (area > INT32_MAX / 511) {  // 2 S + A would exceed int32
    auto* wide_totals = reinterpret_cast<uint64_t*>(after);
    sum_rows(resize, crop, row_bytes, row, wide);
    sum_columns_wide(resize, wide, wide_totals);
    divide<double, int64_t>(wide_totals, count, area, out);
    return;
  }
  if (resize.rows.total > 257) {  // 257 * 255 is the greatest uint16
    sum_rows(resize, crop, row_bytes, row, wide);
    sum_columns(resize, wide, totals);
  } else {
    sum_rows_fast(resize, crop, row_bytes, row, words);
#if defined(EM_ISA_AVX512)
    if (resize.gather && area < kFloatArea)
      return divide_columns_by_groups(resize, words, static_cast<int32_t>(area), out);
#endif
    sum_columns_fast(resize, words, totals);
  }
  if (area < kFloatArea)
    divide<float, int32_t>(totals, count, area, out);
  else
    divide<double, int32_t>(totals, count, area, out);
}

}  // namespace edgemeta::EM_NAMESPACE
