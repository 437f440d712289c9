// Arguments of the steps that are no convolutions, as plain data.
#pragma once

#include <stdint.h>

#include "requantize_arguments.h"
#include "view.h"

namespace edgemeta {

struct Pool {
  View in, out;
  Window window;
  Requantize requantize;  // average pool only
};

// acc = u - zero, with parameters for each channel; with the same ones for all, a rescaling is a lookup.
struct Rescale {
  View in, out;
  Requantize requantize;
};

struct Addition {
  View a, b, out;
  Sum sum;
};

// y = table[x], on the library's integers; one table for all channels or one each.
struct Lookup {
  View in, out;
  const uint8_t* table;  // [1][256] or [channels][256]
  bool per_channel;
};

// acc = (a - zero) * (b - zero); b may be one pixel that all pixels of a are multiplied by.
struct Product {
  View a, b, out;
  bool one_pixel;
  Requantize requantize;
};

struct Copy {
  View in, out;
  int32_t channel;             // concat: first output channel
  int32_t factor_y, factor_x;  // upsample
};

// Pixel (y, x) of the input goes to (top + y * spacing_y, left + x * spacing_x) of the output.
struct Pad {
  View in, out;
  int32_t top, left, spacing_y, spacing_x;
};

struct Slice {
  View in, out;
  int32_t top, left, channel, step_y, step_x, step_channel;
};

struct Shuffle {
  View in, out;
  int32_t groups;
};

// As NeighbourLists.
struct Neighbours {
  const int32_t *lower, *upper, *weight;
};
struct Bilinear {
  View in, out;
  Neighbours rows, columns;
};

}  // namespace edgemeta
