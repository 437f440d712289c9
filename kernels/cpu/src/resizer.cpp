#include "resizer.h"

#include <algorithm>
#include <numeric>

#include "isa.h"

namespace edgemeta {

Resizer::AxisArrays::AxisArrays(const em_axis& axis)
    : total(axis.total), start(axis.start, axis.start + axis.size), count(axis.count, axis.count + axis.size) {
  first.resize(count.size());
  std::partial_sum(count.begin(), count.end() - 1, first.begin() + 1);
  weights.assign(axis.weights, axis.weights + first.back() + count.back());
}

Axis Resizer::AxisArrays::view() const {
  return {static_cast<int32_t>(start.size()), start.data(), count.data(), first.data(), weights.data(), total};
}

Resizer::Resizer(int isa, const em_resize& resize)
    : kernels_(kernels_for(isa)),
      rows_(resize.rows),
      columns_(resize.columns),
      frame_channels_(resize.frame_channels),
      top_(resize.top),
      left_(resize.left),
      channels_(resize.channels),
      is_rgb_(resize.is_rgb != 0),
      table_(resize.table, resize.table + size_t(resize.channels) * 256),
      column_pairs_(pair_up(columns_)),
      resize_{rows_.view(),
              columns_.view(),
              resize.frame_channels,
              *std::max_element(rows_.weights.begin(), rows_.weights.end()),
              *std::max_element(columns_.weights.begin(), columns_.weights.end()),
              column_pairs_.data()},
      scratch_(kernels_.resize_scratch(resize_)),
      row_(size_t(resize.columns.size) * size_t(resize.frame_channels)) {}

// Weights above int16 are truncated here and not used: see `greatest_column_weight`.
std::vector<int16_t> Resizer::pair_up(const AxisArrays& columns) {
  std::vector<int16_t> pairs;
  for (size_t j = 0; j < columns.start.size(); ++j) {
    for (int32_t i = 0; i < columns.count[j]; i += 2) {
      const int32_t* weights = &columns.weights[columns.first[j] + i];
      const auto a = static_cast<int16_t>(weights[0]),
                 b = static_cast<int16_t>(i + 1 < columns.count[j] ? weights[1] : 0);
      pairs.insert(pairs.end(), {a, b, a, b, a, b, 0, 0});
    }
    if ((columns.count[j] + 1) / 2 % 2) pairs.insert(pairs.end(), 8, 0);
  }
  return pairs;
}

void Resizer::run(const uint8_t* frame, int64_t row_bytes, uint8_t* output) {
  const uint8_t* crop = frame + top_ * row_bytes + int64_t{left_} * frame_channels_;
  const int64_t row_out = int64_t{resize_.columns.size} * channels_;
  for (int32_t y = 0; y < resize_.rows.size; ++y) {
    kernels_.resize_row(resize_, crop, row_bytes, y, row_.data(), scratch_.data());
    colour_row(row_.data(), output + y * row_out);
  }
}

// Blue, green, red or gray bytes to the tensor's channels, through the table.
void Resizer::colour_row(const uint8_t* pixels, uint8_t* out) const {
  const uint8_t *table0 = table_.data(), *table1 = table0 + 256, *table2 = table1 + 256;
  const int32_t width = resize_.columns.size;
  if (channels_ == 1) {
    for (int32_t x = 0; x < width; ++x, pixels += frame_channels_) {
      const int32_t gray =
          frame_channels_ == 1 ? pixels[0] : (1868 * pixels[0] + 9617 * pixels[1] + 4899 * pixels[2] + (1 << 13)) >> 14;
      out[x] = table0[gray];
    }
    return;
  }
  // Position of each output channel in a pixel of the frame; a gray frame is used for all three.
  const int32_t first = frame_channels_ == 1 ? 0 : is_rgb_ ? 2 : 0, middle = frame_channels_ == 1 ? 0 : 1;
  const int32_t last = frame_channels_ == 1 ? 0 : 2 - first;
  for (int32_t x = 0; x < width; ++x, pixels += frame_channels_, out += 3) {
    out[0] = table0[pixels[first]];
    out[1] = table1[pixels[middle]];
    out[2] = table2[pixels[last]];
  }
}

}  // namespace edgemeta
