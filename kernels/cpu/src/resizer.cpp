#include "resizer.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "bytes.h"
#include "edgemeta_cpu.h"
#include "isa.h"

namespace edgemeta {

namespace {

constexpr int64_t kMostSide = 1 << 16, kMostFrameSide = 1 << 20;

// source: the pixels of the crop; target: the most pixels of the tensor that they can become.
AxisSpec read_axis(Bytes& in, int32_t source, int32_t target) {
  AxisSpec axis;
  axis.total = in.number("the sum of weights", 1, kMostFrameSide);
  axis.start = in.numbers<int32_t>("starts", Bytes::kAny, 0, source - 1);
  require_between(static_cast<int64_t>(axis.start.size()), 1, target, "the size of an axis");
  axis.count = in.numbers<int32_t>("counts", static_cast<int64_t>(axis.start.size()), 1, source);
  axis.weights = in.numbers<int32_t>("weights", std::accumulate(axis.count.begin(), axis.count.end(), int64_t{0}), 0,
                                     axis.total);
  const int32_t* weights = axis.weights.data();
  int32_t start = 0, end = 0;
  for (size_t i = 0; i < axis.start.size(); weights += axis.count[i++]) {
    const int32_t after = axis.start[i] + axis.count[i];
    require(start <= axis.start[i] && end <= after && after <= source, "the pixels of an axis are out of order");
    require(std::accumulate(weights, weights + axis.count[i], int64_t{0}) == axis.total, "weights have another sum");
    start = axis.start[i];
    end = after;
  }
  return axis;
}

}  // namespace

ResizeSpec read_resize(const uint8_t* bytes, size_t length) {
  Bytes in(bytes, length);
  ResizeSpec resize;
  resize.frame_channels = in.number("the frame's channels", 1, 3);
  require(resize.frame_channels != 2, "the frame has 2 channels, expected 1 or 3");
  for (int32_t* at : {&resize.top, &resize.left}) *at = in.number("the crop's corner", 0, kMostFrameSide);
  const int32_t crop_height = in.number("the crop's height", 1, kMostFrameSide);
  const int32_t crop_width = in.number("the crop's width", 1, kMostFrameSide);
  for (int32_t* side : {&resize.height, &resize.width}) *side = in.number("a side", 1, kMostSide);
  resize.channels = in.number("channels", 1, 4);
  resize.inner_top = in.number("the first row", 0, resize.height - 1);
  resize.inner_left = in.number("the first column", 0, resize.width - 1);
  resize.rows = read_axis(in, crop_height, resize.height - resize.inner_top);
  resize.columns = read_axis(in, crop_width, resize.width - resize.inner_left);
  resize.colours = in.numbers<int32_t>("colours", resize.channels, EM_BLUE, EM_ALPHA);
  resize.table = in.numbers<uint8_t>("table", 256 * resize.channels, 0, 255);
  resize.fill = in.numbers<uint8_t>("fill", resize.channels, 0, 255);
  in.end();
  return resize;
}

Resizer::AxisArrays::AxisArrays(const AxisSpec& axis)
    : total(axis.total), start(axis.start), count(axis.count), weights(axis.weights) {
  first.resize(count.size());
  std::partial_sum(count.begin(), count.end() - 1, first.begin() + 1);
}

Axis Resizer::AxisArrays::view() const {
  return {static_cast<int32_t>(start.size()), start.data(), count.data(), first.data(), weights.data(), total};
}

bool Resizer::AxisArrays::is_identity() const {
  return total == 1 && start.back() + 1 == static_cast<int32_t>(start.size());
}

Resizer::Resizer(int isa, const ResizeSpec& resize)
    : kernels_(kernels_for(isa)),
      rows_(resize.rows),
      columns_(resize.columns),
      top_(resize.top),
      left_(resize.left),
      height_(resize.height),
      inner_top_(resize.inner_top),
      inner_left_(resize.inner_left),
      table_(resize.table),
      fill_row_(size_t(resize.width) * size_t(resize.channels)),
      column_pairs_(pair_up(columns_)),
      resize_{rows_.view(),
              columns_.view(),
              resize.frame_channels,
              *std::max_element(rows_.weights.begin(), rows_.weights.end()),
              *std::max_element(columns_.weights.begin(), columns_.weights.end()),
              column_pairs_.data(),
              nullptr},
      colour_(colour_of(resize, table_.data())),
      is_copy_(rows_.is_identity() && columns_.is_identity()),
      scratch_(kernels_.resize_scratch(resize_)),
      row_(columns_.start.size() * size_t(resize.frame_channels) + Gather::kLanes) {
  for (size_t i = 0; i < fill_row_.size(); ++i) fill_row_[i] = resize.fill[i % size_t(resize.channels)];
  plan_gather();
}

// Five pixels of three channels, or sixteen of one, make a group.
void Resizer::plan_gather() {
  const int32_t channels = resize_.channels, pixels = Gather::kLanes / channels, size = resize_.columns.size;
  const int32_t pairs = (*std::max_element(columns_.count.begin(), columns_.count.end()) + 1) / 2;
  if (resize_.greatest_column_weight > INT16_MAX) return;
  for (int32_t first = 0; first < size; first += pixels) {
    const int32_t last = std::min(first + pixels, size) - 1;
    if ((columns_.start[last] + columns_.count[last] - columns_.start[first]) * channels > Gather::kReach) return;
  }
  for (int32_t first = 0; first < size; first += pixels) {
    gather_begin_.push_back(columns_.start[first] * channels);
    for (int32_t pair = 0; pair < pairs; ++pair) {
      int16_t places[2 * Gather::kLanes] = {}, weights[2 * Gather::kLanes] = {};
      for (int32_t i = 0; i < 2 * pixels * channels; ++i) {
        const int32_t x = first + i / 2 / channels, channel = i / 2 % channels, tap = 2 * pair + i % 2;
        if (x >= size || tap >= columns_.count[x]) continue;
        places[i] = static_cast<int16_t>((columns_.start[x] + tap - columns_.start[first]) * channels + channel);
        weights[i] = static_cast<int16_t>(columns_.weights[size_t(columns_.first[x] + tap)]);
      }
      gather_taps_.insert(gather_taps_.end(), places, places + 2 * Gather::kLanes);
      gather_taps_.insert(gather_taps_.end(), weights, weights + 2 * Gather::kLanes);
    }
  }
  const auto groups = static_cast<int32_t>(gather_begin_.size());
  gather_ = {pixels * channels, groups, pairs, gather_begin_.data(), gather_taps_.data()};
  resize_.gather = &gather_;
}

Colour Resizer::colour_of(const ResizeSpec& resize, const uint8_t* table) {
  Colour colour{resize.frame_channels, resize.channels, {}, table, table[0]};
  for (int32_t c = 0; c < resize.channels; ++c) {
    const int32_t wanted = resize.colours[c];
    colour.colours[c] = resize.frame_channels == 1 && wanted != EM_ALPHA ? 0 : wanted;
  }
  for (int32_t i = 0; i < resize.channels * 256; ++i)
    if (table[i] != ((i % 256) ^ table[0])) colour.flip = -1;
  return colour;
}

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
  const uint8_t* crop = frame + top_ * row_bytes + int64_t{left_} * resize_.channels;
  const int32_t rows = resize_.rows.size, columns = resize_.columns.size;
  const size_t row_out = fill_row_.size(), before = size_t(inner_left_) * size_t(colour_.channels);
  const size_t inside = size_t(columns) * size_t(colour_.channels), after = row_out - before - inside;
  for (int32_t y = 0; y < height_; ++y, output += row_out) {
    const int32_t row = y - inner_top_;
    if (row < 0 || row >= rows) {
      std::memcpy(output, fill_row_.data(), row_out);
      continue;
    }
    const uint8_t* pixels = crop + row * row_bytes;
    if (!is_copy_) {
      kernels_.resize_row(resize_, crop, row_bytes, row, row_.data(), scratch_.data());
      pixels = row_.data();
    }
    std::memcpy(output, fill_row_.data(), before);
    kernels_.colour_row(colour_, pixels, columns, output + before);
    std::memcpy(output + before + inside, fill_row_.data(), after);
  }
}

}  // namespace edgemeta
