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
  // Of an average over what is in the image, else 0: sums over n of its rows count share_y / n times.
  int32_t share_y, share_x;
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

// Sums of `terms` products for each of `results` results of a head.
struct MatMul {
  View a, b, out;
  int32_t heads, terms, results;
  bool transposed;
  Requantize requantize;
};

struct Softmax {
  View in, out;
  int32_t groups;
  const int32_t* exponentials;  // [256], of the greatest element less an element
  int64_t multiplier;
  int32_t hi;
};

struct Normalize {
  View in, out;
  bool whole;
  int64_t epsilon;
  const int32_t *factors, *bias;  // [channels of whole blocks]
  Requantize requantize;
};

// values: [height][width][channels], the library's integers.
struct Fill {
  View out;
  const uint8_t* values;
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
