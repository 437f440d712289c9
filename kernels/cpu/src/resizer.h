// Converts a camera frame to the input tensor in one pass: crop, area resize, colour, fill, table.
#pragma once

#include <vector>

#include "buffer.h"
#include "kernels.h"

namespace edgemeta {

// One axis: pixel i covers `count[i]` source pixels of the crop from `start[i]` on, with the next `count[i]` entries of
// `weights`; the weights of each pixel sum to `total`.
struct AxisSpec {
  std::vector<int32_t> start, count, weights;
  int32_t total;
};

// rows, columns: of the part of the tensor that shows the frame, which begins at (inner_top, inner_left); the other
// pixels take the integers `fill` [channels]. frame_channels: 3 (blue, green, red) or 1 (gray); top, left: the crop.
// height, width, channels: of the tensor; 1 to 4 channels. colours: [channels]. table: [channels][256] bytes.
struct ResizeSpec {
  AxisSpec rows, columns;
  int32_t frame_channels, top, left, height, width, channels, inner_top, inner_left;
  std::vector<int32_t> colours;
  std::vector<uint8_t> table, fill;
};

// From the bytes of kernels/cpu/preprocess.py. Raises an exception that names the field that does not fit.
ResizeSpec read_resize(const uint8_t* bytes, size_t length);

class Resizer {
 public:
  Resizer(int isa, const ResizeSpec& resize);
  Resizer(const Resizer&) = delete;
  void run(const uint8_t* frame, int64_t row_bytes, uint8_t* output);

 private:
  struct AxisArrays {
    explicit AxisArrays(const AxisSpec& axis);
    Axis view() const;
    bool is_identity() const;
    int32_t total;
    std::vector<int32_t> start, count, first, weights;
  };

  static std::vector<int16_t> pair_up(const AxisArrays& columns);
  void plan_gather();
  static Colour colour_of(const ResizeSpec& resize, const uint8_t* table);

  const Kernels& kernels_;
  AxisArrays rows_, columns_;
  int32_t top_, left_, height_, inner_top_, inner_left_;
  std::vector<uint8_t> table_, fill_row_;
  std::vector<int16_t> column_pairs_, gather_taps_;
  std::vector<int32_t> gather_begin_;
  Gather gather_;
  Resize resize_;
  Colour colour_;
  bool is_copy_;  // the frame has the size of its part of the tensor
  Buffer scratch_, row_;
};

}  // namespace edgemeta
