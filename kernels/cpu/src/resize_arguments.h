// Arguments of an area resize and of the conversion of its pixels, as plain data.
#pragma once

#include <stdint.h>

namespace edgemeta {

// One axis of an area resize, as AxisSpec.
struct Axis {
  int32_t size;
  const int32_t *start, *count, *first, *weights;  // first: index of a pixel's first weight
  int32_t total;
};
// Outputs of a row of column sums, `outputs` words at a time. Group g reads the kReach words from begin[g] on. For each
// group and pair of its taps, `taps` has 32 places among them, two for each output, then their 32 weights.
struct Gather {
  static constexpr int32_t kReach = 64, kLanes = 16;
  int32_t outputs, groups, pairs;
  const int32_t* begin;
  const int16_t* taps;
};
struct Resize {
  Axis rows, columns;
  int32_t channels;  // of the frame, 1 or 3
  int32_t greatest_row_weight, greatest_column_weight;
  // Column weights for four pixels at a time, [w0 w1 w0 w1 w0 w1 0 0 w2 w3 w2 w3 w2 w3 0 0], padded with weights of 0.
  const int16_t* column_pairs;
  // Column weights for a group of neighbouring outputs at a time; null where a group spans more than a gather reaches.
  const Gather* gather;
};
// From the resized pixels of a frame to the integers of a tensor.
struct Colour {
  int32_t frame_channels, channels;
  int32_t colours[4];    // EM_BLUE ... of each channel of the tensor; for a gray frame, 0 or EM_ALPHA
  const uint8_t* table;  // [channels][256]
  int32_t flip;          // each table is p ^ flip; -1 if they are not
};

}  // namespace edgemeta
