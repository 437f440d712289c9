// A network: described layer by layer, then planned once into steps over one block of memory.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "buffer.h"
#include "edgemeta_cpu.h"
#include "kernels.h"
#include "requantize.h"
#include "team.h"

namespace edgemeta {

enum class Kind {
  conv,
  sum,
  rescale,
  max_pool,
  average_pool,
  concat,
  lookup,
  product,
  bilinear,
  gather,
  matmul,
  softmax,
  normalize,
  constant
};

// What a tensor holds: height, width, channels, and what its bytes mean: their least and greatest integer are lo, hi.
struct TensorType {
  int32_t height, width, channels;
  int32_t is_signed, zero_point, lo, hi;
};

struct PaddedWindow {
  int32_t kernel_height, kernel_width, stride_y, stride_x, top, left, bottom, right;
  int32_t dilation_y, dilation_x;  // convolutions only: elements from one tap to the next, otherwise 1
};

// One axis of a bilinear resize: the two neighbours of every output position, and the weight of the upper one in units
// of 2**-11.
struct NeighbourLists {
  std::vector<int32_t> lower, upper, weight;
};

// Of a gather: element (y, x, c) of the output is element rows[y] + columns[x] + channels[c] of the input, in H, W, C
// order, or the zero point where rows[y] or columns[x] is -1. Rows, columns and channels add up each for themselves.
struct Places {
  std::vector<int32_t> rows, columns, channels;
};

// Whether a list is begin, begin + step, begin + 2 step, ...
inline bool counts(const std::vector<int32_t>& list, int32_t begin, int32_t step) {
  for (size_t i = 0; i < list.size(); ++i)
    if (list[i] != begin + static_cast<int64_t>(i) * step) return false;
  return true;
}

struct Position {
  int32_t y, x, channel;
};

// Of an element 0 and above.
inline Position position_of(int32_t element, const TensorType& type) {
  const int32_t pixel = element / type.channels;
  return {pixel / type.width, pixel % type.width, element % type.channels};
}

// Weights as sums of binary bases: weight = sum over b of factors[o, b] times the sign that bit b of its code stands
// for, 1 for +1 and 0 for -1. count = 0: none.
struct Bases {
  int32_t count = 0;
  std::vector<int32_t> codes, factors;  // codes as a layer's weights; factors [O, count]
};

// A layer as the plan has it; only the fields of its kind are set.
struct Layer {
  Kind kind;
  std::string name;
  std::vector<int32_t> inputs;
  int32_t output = -1;    // where its result is stored, of this tensor's layout
  int32_t computed = -1;  // whose integers it computes: another one only if a table follows
  PaddedWindow window{};
  int32_t groups = 1;
  std::vector<int32_t> weights, bias;  // weights [O, KH, KW, I / groups]
  Bases bases;                         // of the same weights
  RequantizeSpec requantize;
  bool inside = false;  // average pool, with what its sums are divided by on each axis
  int32_t share_y = 0, share_x = 0;
  int32_t multiplier_a = 0, multiplier_b = 0, shift = 0, lo = 0, hi = 0;
  std::vector<int8_t> table;      // lookup: one or one for each channel, on signed bytes
  std::vector<int32_t> channels;  // concat: first output channel of each input
  NeighbourLists rows, columns;   // bilinear
  Places places;                  // gather
  bool transposed = false;        // matmul, whose heads are `groups`, as those of a softmax
  std::vector<int32_t> powers;    // softmax: exponentials, with multiplier_a
  bool whole = false;             // normalize, with weights for its factors, and bias
  int64_t epsilon = 0;
  std::vector<uint8_t> values;    // constant: the plan's integers modulo 2**8
  int32_t border_of = -1;         // a tensor whose border is filled together with the output
  // A fused addition of the following layer: this convolution's result is its operand `sum_operand`.
  std::shared_ptr<Layer> sum;
  int32_t sum_operand = 0;
  // A fused table of all later layers of one element, as that of a lookup: its rows are its output. Or empty.
  std::vector<int8_t> after;
  std::string after_name;
  int32_t wanted_form = EM_FASTEST;  // of a convolution
};

struct Tensor {
  TensorType type;
  int32_t offset;  // from the caller's integers to the library's: 128 if only the former are signed, -128 if the latter
  bool raw = false;
  bool is_given = false;  // the model's input: the caller's integers need not lie in lo .. hi
  int32_t whole = -1, channel = 0;  // a part of another tensor's pixels, from this channel on
  int32_t top = 0, left = 0, bottom = 0, right = 0;  // border
  View view{};
  int64_t start = 0, bytes = 0;  // its position in the arena, including the border
};

// A network, proved: tensor 0 is its input. Each layer reads what earlier ones leave, nothing between fused layers.
struct Plan {
  std::vector<TensorType> tensors;
  std::vector<Layer> layers;
  std::vector<int32_t> outputs;  // tensors that every run returns, each once
};

// The plan that a block of bytes describes, as kernels/lowering/plan_bytes.py writes it. Raises an exception that names
// the layer and the field unless every length, count, choice, reference, shape and range fits: then no step reads or
// writes outside of its tensors, and no integer overflows.
Plan read_plan(const uint8_t* bytes, size_t length);

// One step over the rows 0 .. rows - 1 of its output, which may be made in parts that begin at multiples of
// `rows_per_unit`: Winograd's tiles make some rows together, and a part of a tile takes as long as a whole one.
struct Step {
  std::string name;
  int32_t rows;
  std::function<void(uint8_t* arena, int32_t first, int32_t last, uint8_t* scratch)> run;
  std::string form{};        // of a convolution: how it runs, and why
  int64_t weight_bytes = 0;  // of a convolution
  double share = 0;          // of a convolution: its predicted time as a share of the plain form's; 0: not predicted
  int32_t rows_per_unit = 1;

  int32_t units() const { return (rows + rows_per_unit - 1) / rows_per_unit; }
};

class Program {
 public:
  Program(int isa, int threads);

  // Repack, plan the memory. Nothing is allocated afterwards.
  void load(Plan plan);

  void run(int32_t images, const uint8_t* input, void* const* outputs);
  void profile(const uint8_t* input, void* const* outputs, int64_t* nanoseconds);

  const Kernels& kernels() const { return kernels_; }
  const std::vector<Step>& steps() const { return steps_; }
  size_t image_bytes() const { return image_bytes_; }
  size_t output_bytes(size_t output) const { return outputs_[output].bytes; }

 private:
  using Clock = std::chrono::steady_clock;

  // The current work: one image step by step, or a batch image by image.
  struct Job {
    int32_t images;
    const uint8_t* input;
    void* const* outputs;
    int64_t* nanoseconds;  // of each step, or null
  };

  // A tensor that every run returns, and its bytes in the caller's layout.
  struct Output {
    int32_t tensor;
    size_t bytes;
  };

  void put(const uint8_t* image, uint8_t* arena) const;
  void unload(const uint8_t* arena, const Output& output, uint8_t* target) const;
  void unload_all(const uint8_t* arena, void* const* outputs, int32_t image) const;
  void run_whole(const Job& job, int32_t image, int thread) const;
  void share(const Job& job);
  void help(int thread);
  void run_units(uint32_t phase, int32_t first, int32_t last, int thread) const;
  void publish(uint32_t phase);
  void finish(uint32_t phase);

  const Kernels& kernels_;
  std::vector<Tensor> tensors_;
  std::vector<Step> steps_;
  size_t image_bytes_ = 0;
  std::vector<Output> outputs_;
  std::vector<Buffer> arenas_, scratch_;  // one of each per thread

  // The work shared by the threads: phase in the upper half, its remaining units in the lower half. A phase is a
  // step with its units, or the single phase of a batch with images as units.
  static constexpr uint64_t kFinished = ~uint64_t{0};
  std::atomic<uint64_t> ticket_{kFinished};
  std::atomic<int32_t> left_{0};  // units of the phase that are not done
  Job job_{};
  Clock::time_point published_;
  Team team_;  // the last member, so that its threads end before the data that they use
};

// Whether a convolution runs with the multiplier of these kernels: its weights fit, or the kernels take digits.
bool runs_fast(const Layer& layer, const Kernels& kernels);

// The first channel of a gather that is a part of its input, which is in blocks: it takes adjacent channels of every
// pixel, from a block on. -1 for any other layer.
int32_t part_channel(const Layer& layer, const std::vector<Tensor>& tensors);

// Make tensors parts of others where that saves a copy: inputs of concatenations, gathers of channels; returns
// the layers that still have something to copy.
std::vector<Layer> place_parts(std::vector<Layer> layers, std::vector<Tensor>& tensors, int32_t input);

// Place every tensor; returns the arena's size. Tensors share memory if their lifetimes do not overlap; the first layer
// that writes one with a border fills that, too.
size_t plan_arena(std::vector<Tensor>& tensors, std::vector<Layer>& layers, int32_t input,
                  const std::vector<int32_t>& outputs);

// Make a step of a layer; `scratch` grows to the bytes that the step needs per thread.
Step make_step(const Layer& layer, const std::vector<Tensor>& tensors, const Kernels& kernels, size_t& scratch);

}  // namespace edgemeta
