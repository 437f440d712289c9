// The accumulators of a tile: P pixels of one output row by N blocks of sixteen channels.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// Passed by value: with a reference the compiler would store every sum, as the inputs are bytes that may alias
// it.
template <int P, int N>
struct Accumulators {
  I32x16 lane[P][N];
};

// Inputs of a tile. `in` is the window of its first pixel; that of the next pixel is `step` bytes further.
struct TileInput {
  const uint8_t* in;
  int32_t step;
  const uint8_t* weights;  // of its first block
  int64_t block_bytes;     // from one block's weights to the next
  bool first_block;        // whether no earlier tile read the same pixels
  uint8_t* scratch;
};

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
