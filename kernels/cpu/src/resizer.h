// Converts a camera frame to the input tensor in one pass: crop, area resize, colour, fill, table.
#pragma once

#include <vector>

#include "buffer.h"
#include "edgemeta_cpu.h"
#include "kernels.h"

namespace edgemeta {

class Resizer {
 public:
  Resizer(int isa, const em_resize& resize);
  Resizer(const Resizer&) = delete;
  void run(const uint8_t* frame, int64_t row_bytes, uint8_t* output);

 private:
  struct AxisArrays {
    explicit AxisArrays(const em_axis& axis);
    Axis view() const;
    bool is_identity() const;
    int32_t total;
    std::vector<int32_t> start, count, first, weights;
  };

  static std::vector<int16_t> pair_up(const AxisArrays& columns);
  void plan_gather();
  static Colour colour_of(const em_resize& resize, const uint8_t* table);

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
