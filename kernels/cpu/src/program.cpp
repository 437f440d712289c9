#include "program.h"

#include <cstring>

#include "bytes.h"
#include "isa.h"

namespace edgemeta {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int32_t kInput = 0;  // the tensor

void fill_with_zero_points(const std::vector<Tensor>& tensors, uint8_t* arena) {
  for (const Tensor& tensor : tensors)
    std::memset(arena + tensor.start, tensor.raw ? 0 : tensor.view.zero, tensor.bytes);
}

// A sum after a convolution that cannot take it becomes a layer of its own.
std::vector<Layer> with_own_sums(std::vector<Layer> layers, const Kernels& kernels) {
  std::vector<Layer> all;
  for (Layer& layer : layers) {
    if (layer.sum == nullptr || runs_fast(layer, kernels)) {
      all.push_back(std::move(layer));
      continue;
    }
    Layer sum = std::move(*layer.sum);
    sum.after = std::move(layer.after);
    sum.after_name = std::move(layer.after_name);
    sum.output = layer.output;
    layer.sum = nullptr;
    layer.inputs.pop_back();
    layer.output = layer.computed;
    layer.after.clear();
    all.push_back(std::move(layer));
    all.push_back(std::move(sum));
  }
  return all;
}

}  // namespace

Program::Program(int isa, int threads)
    : kernels_(kernels_for(isa)), team_(threads, [this](int thread) { help(thread); }) {}

void Program::load(Plan plan) {
  require(steps_.empty(), "the program has a plan");
  for (const TensorType& type : plan.tensors) {
    Tensor tensor{};
    tensor.type = type;
    tensor.offset = (type.is_signed ? 128 : 0) - (kernels_.is_signed ? 128 : 0);
    tensors_.push_back(tensor);
  }
  tensors_[kInput].is_given = true;
  for (const Layer& layer : plan.layers)
    tensors_[layer.output].raw = layer.kind == Kind::conv && layer.requantize.kind == EM_RAW;
  std::vector<Layer> layers = place_parts(with_own_sums(std::move(plan.layers), kernels_), tensors_, kInput);
  const size_t arena_bytes = plan_arena(tensors_, layers, kInput, plan.outputs);
  size_t scratch_bytes = 0;
  for (Layer& layer : layers) {
    steps_.push_back(make_step(layer, tensors_, kernels_, scratch_bytes));
    layer = Layer{};  // its weights and tables have been packed
  }
  for (int i = 0; i < team_.size(); ++i) {
    arenas_.emplace_back(arena_bytes);
    scratch_.emplace_back(scratch_bytes);
    fill_with_zero_points(tensors_, arenas_.back().data());
  }
  const auto elements = [](const TensorType& type) { return size_t(type.height) * type.width * type.channels; };
  image_bytes_ = elements(tensors_[kInput].type);
  for (int32_t output : plan.outputs) {
    const Tensor& tensor = tensors_[output];
    outputs_.push_back({output, elements(tensor.type) * (tensor.raw ? 4 : 1)});
  }
}

// Copy an image to the arena, adding 0, 128 or -128 to its integers: the latter two flip their top bit.
void Program::put(const uint8_t* image, uint8_t* arena) const {
  const Tensor& tensor = tensors_[kInput];
  const View& view = tensor.view;
  const auto flip = static_cast<uint8_t>(tensor.offset);
  for (int32_t y = 0; y < view.height; ++y) {
    uint8_t* row = arena + view.at(y, 0);
    if (view.channels == view.pixel) {
      const int32_t bytes = view.width * view.channels;
      for (int32_t i = 0; i < bytes; ++i) row[i] = image[i] ^ flip;
      image += bytes;
    } else if (view.channels == 3 && view.pixel == 4) {
      kernels_.load_pixels(image, row, view.width, flip);
      image += 3 * view.width;
    } else {
      for (int32_t x = 0; x < view.width; ++x, image += view.channels)
        for (int32_t c = 0; c < view.channels; ++c) row[x * view.pixel + c] = image[c] ^ flip;
    }
  }
}

namespace {

// Eight bytes at a time: pixels are short.
inline void copy_flipped(uint8_t* to, const uint8_t* from, size_t bytes, uint8_t flip) {
  const uint64_t flips = flip * 0x0101010101010101u;
  size_t i = 0;
  for (; i + 8 <= bytes; i += 8) {
    uint64_t eight;
    std::memcpy(&eight, from + i, 8);
    eight ^= flips;
    std::memcpy(to + i, &eight, 8);
  }
  for (; i < bytes; ++i) to[i] = from[i] ^ flip;
}

}  // namespace

void Program::unload(const uint8_t* arena, const Output& output, uint8_t* target) const {
  const Tensor& tensor = tensors_[output.tensor];
  const View& view = tensor.view;
  const size_t bytes = size_t(view.channels) * (tensor.raw ? 4 : 1);
  for (int32_t y = 0; y < view.height; ++y) {
    const uint8_t* from = arena + view.at(y, 0);
    for (int32_t x = 0; x < view.width; ++x, target += bytes, from += view.pixel)
      copy_flipped(target, from, bytes, tensor.raw ? 0 : static_cast<uint8_t>(tensor.offset));
  }
}

// Copy all outputs of one image to its place in the caller's arrays.
void Program::unload_all(const uint8_t* arena, void* const* outputs, int32_t image) const {
  for (size_t i = 0; i < outputs_.size(); ++i)
    unload(arena, outputs_[i], static_cast<uint8_t*>(outputs[i]) + image * outputs_[i].bytes);
}

// One image of a job on one thread, in that thread's arena.
void Program::run_whole(const Job& job, int32_t image, int thread) const {
  uint8_t *arena = arenas_[thread].data(), *scratch = scratch_[thread].data();
  put(job.input + image * image_bytes_, arena);
  for (const Step& step : steps_) step.run(arena, 0, step.rows, scratch);
  unload_all(arena, job.outputs, image);
}

// Units are not assigned in advance: a thread that is not scheduled delays the others only if it has taken some. Each
// takes a share of the remaining units, so that all end at about the same time. The thread that completes the last
// unit of a phase starts the next phase.
void Program::help(int thread) {
  const auto threads = static_cast<uint32_t>(team_.size());
  for (int spins = 0;;) {
    uint64_t ticket = ticket_.load(std::memory_order_acquire);
    if (ticket == kFinished) return;
    const auto remaining = static_cast<uint32_t>(ticket);
    if (remaining == 0) {
      relax(spins++);
      continue;
    }
    const uint32_t taken = (remaining + threads - 1) / threads;
    if (!ticket_.compare_exchange_weak(ticket, ticket - taken, std::memory_order_acq_rel)) continue;
    // Everything else is read after taking the units: the work cannot end, and no other can start, before they are
    // done.
    const auto phase = static_cast<uint32_t>(ticket >> 32);
    run_units(phase, static_cast<int32_t>(remaining - taken), static_cast<int32_t>(remaining), thread);
    const auto done = static_cast<int32_t>(taken);
    if (left_.fetch_sub(done, std::memory_order_acq_rel) == done) finish(phase);
    spins = 0;
  }
}

void Program::run_units(uint32_t phase, int32_t first, int32_t last, int thread) const {
  if (job_.images == 1) {
    const Step& step = steps_[phase];
    const int32_t from = first * step.rows_per_unit, to = std::min(last * step.rows_per_unit, step.rows);
    return step.run(arenas_[0].data(), from, to, scratch_[thread].data());
  }
  for (int32_t i = first; i < last; ++i) run_whole(job_, i, thread);
}

void Program::publish(uint32_t phase) {
  const int32_t units = job_.images == 1 ? steps_[phase].units() : job_.images;
  if (job_.nanoseconds) published_ = Clock::now();
  left_.store(units, std::memory_order_relaxed);
  ticket_.store(uint64_t{phase} << 32 | static_cast<uint32_t>(units), std::memory_order_release);
}

void Program::finish(uint32_t phase) {
  if (job_.nanoseconds)
    job_.nanoseconds[phase] = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - published_).count();
  const size_t phases = job_.images == 1 ? steps_.size() : 1;
  if (phase + 1 < phases)
    publish(phase + 1);
  else
    ticket_.store(kFinished, std::memory_order_release);
}

// Execute a job together with the other threads; returns when it is complete.
void Program::share(const Job& job) {
  job_ = job;
  if (job.images == 1) put(job.input, arenas_[0].data());
  publish(0);
  if (team_.size() > 1) team_.call();
  help(0);
  if (job.images == 1) unload_all(arenas_[0].data(), job.outputs, 0);
}

void Program::run(int32_t images, const uint8_t* input, void* const* outputs) {
  const Job job{images, input, outputs, nullptr};
  if (team_.size() > 1) return share(job);
  for (int32_t i = 0; i < images; ++i) run_whole(job, i, 0);
}

void Program::profile(const uint8_t* input, void* const* outputs, int64_t* nanoseconds) {
  share({1, input, outputs, nanoseconds});
}

}  // namespace edgemeta
