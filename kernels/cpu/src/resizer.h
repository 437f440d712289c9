// Converts a camera frame to the input tensor in one pass: crop, area resize, colour, table.
#pragma once

#include <vector>

#include "buffer.h"
#include "edgemeta_cpu.h"
#include "kernels.h"

namespace edgemeta {

class Resizer {
 public:
  Resizer(int isa, const em_resize& resize);
  void run(const uint8_t* frame, int64_t row_bytes, uint8_t* output);

 private:
  struct AxisArrays {
    explicit AxisArrays(const em_axis& axis);
    Axis view() const;
    int32_t total;
    std::vector<int32_t> start, count, first, weights;
  };

  static std::vector<int16_t> pair_up(const AxisArrays& columns);

  void colour_row(const uint8_t* pixels, uint8_t* out) const;

  const Kernels& kernels_;
  AxisArrays rows_, columns_;
  int32_t frame_channels_, top_, left_, channels_;
  bool is_rgb_;
  std::vector<uint8_t> table_;
  std::vector<int16_t> column_pairs_;
  Resize resize_;
  Buffer scratch_, row_;
};

}  // namespace edgemeta
