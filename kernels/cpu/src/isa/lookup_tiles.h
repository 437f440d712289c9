// Tables of 256 entries, applied to many bytes at a time: one for all channels, or one for each.
//
// A Set is a way to look up in registers: V, a vector of kLanes lanes of sixteen bytes; Table, made of 256 entries as
// pack leaves them, which looks up the bytes of one or kGroups V. Of one table, adjacent bytes are looked up as they
// are. Of tables for each channel, a tile of 16 kLanes pixels is transposed: a vector then holds 16 kLanes pixels of
// one channel, is looked up in its table and transposed back. Within lanes, 16 x 16 bytes are transposed by four rounds
// that interleave vectors i and i + 8. A tile has 16 channels, or 16 kLanes where there are so many: then a load takes
// a whole vector of one pixel. kHoldsTile: whether 16 vectors and a table fit the registers.
#pragma once

#include "table.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kTableBytes = 256;

inline void look_up_each(const uint8_t* table, const Pieces& at) {
  for (int32_t p = 0; p < at.count; ++p) {
    const uint8_t* in = at.in + p * at.in_step;
    uint8_t* out = at.out + p * at.out_step;
    for (int32_t i = 0; i < at.size; ++i) out[i] = table[in[i]];
  }
}

inline void look_up_channels_each(const uint8_t* tables, const PixelRun& at, int32_t channels) {
  for (int32_t p = 0; p < at.pixels; ++p) {
    const uint8_t* in = at.in + p * at.in_pixel;
    uint8_t* out = at.out + p * at.out_pixel;
    for (int32_t c = 0; c < channels; ++c) out[c] = tables[c * kTableBytes + in[c]];
  }
}

template <typename Set>
INLINE inline typename Set::V look_up_one(const typename Set::Table& table, typename Set::V x) {
  typename Set::V one[1] = {x};
  table.look_up(one);
  return one[0];
}

// Loads and stores are no wider than a piece: a load that covers more than a store just before it would wait for it.
template <typename Set>
void look_up_pieces(const uint8_t* entries, const Pieces& at) {
  const typename Set::Table table(entries);
  constexpr int kBytes = 16 * Set::kLanes;
  for (int32_t p = 0; p < at.count; ++p) {
    const uint8_t* in = at.in + p * at.in_step;
    uint8_t* out = at.out + p * at.out_step;
    int32_t i = 0;
    for (; i + kBytes <= at.size; i += kBytes) Set::store(out + i, look_up_one<Set>(table, Set::load(in + i)));
    for (; i < at.size; i += 16) Set::store_lane(out + i, look_up_one<Set>(table, Set::load_lane(in + i)));
  }
}

template <typename Set>
INLINE inline void transpose(typename Set::V (&v)[16]) {
  unrolled<4>([&](auto) INLINE {
    typename Set::V w[16];
    unrolled<8>([&](auto i) INLINE {
      w[2 * i.value] = Set::zip_low(v[i.value], v[i.value + 8]);
      w[2 * i.value + 1] = Set::zip_high(v[i.value], v[i.value + 8]);
    });
    unrolled<16>([&](auto i) INLINE { v[i.value] = w[i.value]; });
  });
}

// A tile of kBlocks blocks of channels, 1 or kLanes, of kGroups times 16 kLanes pixels.
template <typename Set, int kBlocks, int kGroups>
INLINE inline void look_up_tile(const uint8_t* tables, const PixelRun& at) {
  constexpr int kPixels = 16 * Set::kLanes;
  typename Set::V v[kBlocks][kGroups][16];
  for (int g = 0; g < kGroups; ++g) {
    for (int i = 0; i < 16; ++i) {
      const uint8_t* in = at.in + (g * kPixels + i) * at.in_pixel;
      if constexpr (kBlocks == 1) {
        v[0][g][i] = Set::load_lanes(in, 16 * at.in_pixel);
      } else {
        typename Set::V z[kBlocks];
        unrolled<kBlocks>([&](auto p) INLINE { z[p.value] = Set::load(in + 16 * p.value * at.in_pixel); });
        Set::transpose_lanes(z);
        unrolled<kBlocks>([&](auto b) INLINE { v[b.value][g][i] = z[b.value]; });
      }
    }
  }
  for (int b = 0; b < kBlocks; ++b) {
    for (int g = 0; g < kGroups; ++g) transpose<Set>(v[b][g]);
    const auto look_up_channel = [&](int c) INLINE {
      const typename Set::Table table(tables + (16 * b + c) * kTableBytes);
      typename Set::V x[kGroups];
      unrolled<kGroups>([&](auto g) INLINE { x[g.value] = v[b][g.value][c]; });
      table.look_up(x);
      unrolled<kGroups>([&](auto g) INLINE { v[b][g.value][c] = x[g.value]; });
    };
    if constexpr (Set::kHoldsTile)
      unrolled<16>([&](auto c) INLINE { look_up_channel(c.value); });
    else
      for (int c = 0; c < 16; ++c) look_up_channel(c);
    for (int g = 0; g < kGroups; ++g) transpose<Set>(v[b][g]);
  }
  for (int g = 0; g < kGroups; ++g) {
    for (int i = 0; i < 16; ++i) {
      uint8_t* out = at.out + (g * kPixels + i) * at.out_pixel;
      if constexpr (kBlocks == 1) {
        Set::store_lanes(out, 16 * at.out_pixel, v[0][g][i]);
      } else {
        typename Set::V z[kBlocks];
        unrolled<kBlocks>([&](auto b) INLINE { z[b.value] = v[b.value][g][i]; });
        Set::transpose_lanes(z);
        unrolled<kBlocks>([&](auto p) INLINE { Set::store(out + 16 * p.value * at.out_pixel, z[p.value]); });
      }
    }
  }
}

// The pixels that fill no tile are copied to one.
template <typename Set, int kBlocks>
void look_up_run(const uint8_t* tables, PixelRun at) {
  constexpr int kPixels = 16 * Set::kLanes, kChannels = 16 * kBlocks;
  const auto advance = [&](int32_t pixels) INLINE {
    at.in += pixels * at.in_pixel;
    at.out += pixels * at.out_pixel;
    at.pixels -= pixels;
  };
  if constexpr (Set::kGroups > 1)
    for (; at.pixels >= Set::kGroups * kPixels; advance(Set::kGroups * kPixels))
      look_up_tile<Set, kBlocks, Set::kGroups>(tables, at);
  for (; at.pixels >= kPixels; advance(kPixels)) look_up_tile<Set, kBlocks, 1>(tables, at);
  if (at.pixels == 0) return;
  alignas(64) uint8_t tile[kPixels * kChannels];
  for (int32_t p = 0; p < at.pixels; ++p) memcpy(tile + p * kChannels, at.in + p * at.in_pixel, kChannels);
  look_up_tile<Set, kBlocks, 1>(tables, {tile, tile, kChannels, kChannels, kPixels, kBlocks});
  for (int32_t p = 0; p < at.pixels; ++p) memcpy(at.out + p * at.out_pixel, tile + p * kChannels, kChannels);
}

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
