// A tile: the accumulators of P pixels of one output row by N blocks of sixteen channels.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

// Inputs of a tile. `in` is the window of its first pixel; that of the next pixel is `step` bytes further.
struct TileInput {
  const uint8_t* in;
  int32_t step;
  const uint8_t* weights;  // of its first block
  int64_t block_bytes;     // from one block's weights to the next
  const int32_t* bias;     // of its first block
  const HighDigit* high;   // of its first block
  uint8_t* scratch;
  int32_t block;  // its first
  uint8_t* out;   // where the first pixel's results go; null: the accumulators are wanted
};

// Writes the accumulators to sums[N][P][16], or where a tile has `out`, their results there.
using RunTile = void (*)(const Conv&, const TileInput&, int32_t* sums);


}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
