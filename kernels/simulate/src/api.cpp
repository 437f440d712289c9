#include <algorithm>
#include <mutex>

#include "../../cpu/src/features.h"
#include "edgemeta_simulate.h"
#include "histogram.h"
#include "round.h"
#include "workers.h"

#define EM_EXPORT extern "C" __attribute__((visibility("default")))

namespace edgemeta::simulate {
namespace {

constexpr int64_t kUnit = 32 * kBlock;  // elements that a thread takes at a time
constexpr int64_t kTogether = 25;       // candidates for a row that a thread takes at a time

int best_isa() {
#if defined(__x86_64__)
  if (has_avx512()) return EM_SIMULATE_AVX512;
  if (has_avx2()) return EM_SIMULATE_AVX2;
#endif
  return EM_SIMULATE_PORTABLE;
}

// Null for an instruction set that the machine lacks.
const Kernels* kernels_for(int isa) {
  const int best = best_isa(), chosen = isa == EM_SIMULATE_AUTO ? best : isa;
  if (chosen < EM_SIMULATE_PORTABLE || chosen > best) return nullptr;
#if defined(__x86_64__)
  if (chosen == EM_SIMULATE_AVX512) return &avx512::kernels;
  if (chosen == EM_SIMULATE_AVX2) return &avx2::kernels;
#endif
  return &portable::kernels;
}

// The random words of `count` elements from `place` on, at most kBlock; the first may be in the middle of 64.
void fill_words(const Kernels& kernels, const em_places& at, int64_t place, int64_t count, uint32_t* words) {
  const Random random = {at.seed, at.step, at.tensor};
  while (count > 0) {
    const auto block = static_cast<uint64_t>(place) / 64;
    const int64_t skipped = place % 64;
    int64_t taken = std::min<int64_t>(64 - skipped, count);
    if (taken == 64) {
      taken = count / 64 * 64;
      kernels.random(random, block, taken / 64, words);
    } else {
      uint32_t all[64];
      kernels.random(random, block, 1, all);
      std::copy(all + skipped, all + skipped + taken, words);
    }
    place += taken;
    words += taken;
    count -= taken;
  }
}

// An array that is rounded, block by block.
struct Array {
  const Kernels& kernels;
  const float* x;
  float* y;
  uint8_t* inside;
  const em_scaled& scaled;
  const em_rounding& rounding;
  const em_places* places;

  int64_t count() const { return scaled.outer * scaled.channels * scaled.inner; }

  // Elements first .. first + count - 1; first is a multiple of kBlock, and count at most kBlock.
  void round_block(int64_t first, int64_t count) const {
    uint32_t words[kBlock];
    if (rounding.rounding == EM_STOCHASTIC) words_of_block(first, count, words);
    const Run run = {x + first, y + first, inside ? inside + first / 8 : nullptr, words, count};
    if (scaled.channels == 1 && scaled.block == 0) {
      kernels.round(run, {rounding, scaled.scale, scaled.lowest, scaled.highest, false});
    } else {
      const Spread spread(scaled, first, count);
      kernels.round(run, {rounding, scaled.scale ? spread.scale : nullptr, spread.lowest, spread.highest, true});
    }
  }

 private:
  // Scale and limits of each element, written in runs of elements that lie side by side in a channel, or of channels.
  struct Spread {
    Spread(const em_scaled& of, int64_t first, int64_t count) {
      int64_t position = first % of.inner, channel = first / of.inner % of.channels;
      int64_t outer = first / (of.inner * of.channels);
      for (int64_t done = 0; done < count;) {
        const int64_t left = of.inner == 1 ? of.channels - channel : of.inner - position;
        const int64_t taken = std::min(left, count - done);
        fill(of, outer, channel, position, taken, done);
        done += taken;
        position = of.inner == 1 ? 0 : (position + taken) % of.inner;
        if (position != 0) continue;
        channel += of.inner == 1 ? taken : 1;
        outer += channel / of.channels;
        channel %= of.channels;
      }
    }
    float scale[kBlock], lowest[kBlock], highest[kBlock];

   private:
    void fill(const em_scaled& of, int64_t outer, int64_t channel, int64_t position, int64_t taken, int64_t at) {
      if (of.block) {
        const int64_t blocks = (of.channels + of.block - 1) / of.block;
        std::fill_n(lowest + at, taken, of.lowest[0]);
        std::fill_n(highest + at, taken, of.highest[0]);
        if (of.inner > 1)
          std::copy_n(of.scale + (outer * blocks + channel / of.block) * of.inner + position, taken, scale + at);
        else
          for (int64_t i = 0; i < taken; ++i) scale[at + i] = of.scale[outer * blocks + (channel + i) / of.block];
      } else if (of.inner > 1) {
        std::fill_n(scale + at, taken, of.scale ? of.scale[channel] : 1);
        std::fill_n(lowest + at, taken, of.lowest[channel]);
        std::fill_n(highest + at, taken, of.highest[channel]);
      } else {
        if (of.scale) std::copy_n(of.scale + channel, taken, scale + at);
        std::copy_n(of.lowest + channel, taken, lowest + at);
        std::copy_n(of.highest + channel, taken, highest + at);
      }
    }
  };

  void words_of_block(int64_t first, int64_t count, uint32_t* words) const {
    for (int64_t done = 0; done < count;) {
      const int64_t row = (first + done) / places->row, column = (first + done) % places->row;
      const int64_t taken = std::min(places->row - column, count - done);
      fill_words(kernels, *places, (places->first + row * places->stride) * places->row + column, taken, words + done);
      done += taken;
    }
  }
};

// Call f(first, count) for units of `count` elements, on several threads.
void for_units(int threads, int64_t count, const std::function<void(int64_t, int64_t)>& f) {
  const int64_t units = (count + kUnit - 1) / kUnit;
  Workers::shared().run(threads, units, [&](int64_t unit) {
    const int64_t first = unit * kUnit;
    f(first, std::min(kUnit, count - first));
  });
}

}  // namespace
}  // namespace edgemeta::simulate

using namespace edgemeta::simulate;

EM_EXPORT int32_t em_simulate_version(void) { return EM_SIMULATE_VERSION; }

EM_EXPORT int32_t em_simulate_best_isa(void) { return best_isa(); }

EM_EXPORT int32_t em_simulate_round(int32_t isa, int32_t threads, const float* x, float* y, uint8_t* inside,
                                    const em_scaled* scaled, const em_rounding* rounding, const em_places* places) {
  const Kernels* kernels = kernels_for(isa);
  if (!kernels) return -1;
  const Array array = {*kernels, x, y, inside, *scaled, *rounding, places};
  for_units(threads, array.count(), [&](int64_t first, int64_t count) {
    for (int64_t done = 0; done < count; done += kBlock)
      array.round_block(first + done, std::min(kBlock, count - done));
  });
  return 0;
}

EM_EXPORT int32_t em_simulate_keep(int32_t isa, int32_t threads, const float* x, float* y, const uint8_t* inside,
                                   int64_t count) {
  const Kernels* kernels = kernels_for(isa);
  if (!kernels) return -1;
  for_units(threads, count, [&](int64_t first, int64_t part) {
    kernels->keep(x + first, y + first, inside + first / 8, part);
  });
  return 0;
}

EM_EXPORT int32_t em_simulate_range(int32_t isa, int32_t threads, const float* x, int64_t count, float* range) {
  const Kernels* kernels = kernels_for(isa);
  if (!kernels) return -1;
  std::mutex mutex;
  bool any = false;
  for_units(threads, count, [&](int64_t first, int64_t part) {
    float found[2];
    kernels->range(x + first, part, found);
    const std::lock_guard<std::mutex> lock(mutex);
    range[0] = any ? std::min(range[0], found[0]) : found[0];
    range[1] = any ? std::max(range[1], found[1]) : found[1];
    any = true;
  });
  if (!any) range[0] = range[1] = 0;
  return 0;
}

EM_EXPORT int32_t em_simulate_errors(int32_t isa, int32_t threads, const float* x, int64_t rows, int64_t count,
                                     int64_t candidates, const float* scale, const float* lowest, const float* highest,
                                     double* errors) {
  const Kernels* kernels = kernels_for(isa);
  if (!kernels) return -1;
  const int64_t parts = (candidates + kTogether - 1) / kTogether;
  Workers::shared().run(threads, rows * parts, [&](int64_t unit) {
    const int64_t row = unit / parts, first = unit % parts * kTogether, at = row * candidates + first;
    const Candidates some = {scale + at, lowest + at, highest + at, std::min(kTogether, candidates - first)};
    kernels->errors(x + row * count, count, some, errors + at);
  });
  return 0;
}

EM_EXPORT void em_simulate_histogram(int32_t threads, const float* x, int64_t count, int64_t* counts) {
  const int64_t parts = std::clamp<int64_t>(threads, 1, count / kUnit + 1);  // each has tables of its own
  const int64_t size = (count + parts - 1) / parts;
  std::vector<uint64_t> total(kBins);
  std::mutex mutex;
  Workers::shared().run(threads, parts, [&](int64_t part) {
    const int64_t first = std::min(part * size, count);
    std::vector<uint64_t> found(kBins);
    count_in_bins(x + first, std::min(size, count - first), found);
    const std::lock_guard<std::mutex> lock(mutex);
    for (uint32_t bin = 0; bin < kBins; ++bin) total[bin] += found[bin];
  });
  std::copy(total.begin(), total.end(), counts);
}
