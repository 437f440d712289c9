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
  const uint8_t* table;  // [1][256] or, by Kernels::pack_tables, [channels of whole blocks][256]
  bool per_channel;
  bool joins_rows;  // in and out are alike, and what is between the rows that a call makes may be overwritten
};

// acc = (a - zero) * (b - zero); b may be one pixel that all pixels of a are multiplied by.
struct Product {
  View a, b, out;
  bool one_pixel;
  Requantize requantize;
};

// One input of a concatenation: its first output channel.
struct Copy {
  View in, out;
  int32_t channel;
};

// Element (y, x, c) of the output is the byte rows[y] + columns[x] + channels[c] after the input's first one, or the
// zero point where rows[y] or columns[x] is below 0. channels is null if it is 0, 1, 2, ...
struct ElementGather {
  View in, out;
  const int64_t *rows, *columns, *channels;
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
