#include "program.h"

#include <chrono>
#include <cstring>
#include <stdexcept>

#include "isa.h"

namespace edgemeta {
namespace {

using Clock = std::chrono::steady_clock;

int32_t share(int32_t rows, int thread, int threads) { return static_cast<int32_t>(int64_t{rows} * thread / threads); }

void fill_with_zero_points(const std::vector<Tensor>& tensors, uint8_t* arena) {
  for (const Tensor& tensor : tensors)
    std::memset(arena + tensor.start, tensor.raw ? 0 : tensor.view.zero, tensor.bytes);
}

}  // namespace

Program::Program(int isa, int threads) : kernels_(kernels_for(isa)), team_(threads) {}

int32_t Program::add_tensor(const em_tensor& type) {
  Tensor tensor{};
  tensor.type = type;
  tensor.offset = type.is_signed ? 128 : 0;
  tensors_.push_back(tensor);
  return static_cast<int32_t>(tensors_.size()) - 1;
}

int32_t Program::add_layer(Layer layer) {
  if (!steps_.empty()) throw std::logic_error("the program is sealed");
  if (layer.requantize.kind == EM_RAW && (layer.kind == Kind::conv)) tensors_.at(layer.output).raw = true;
  layers_.push_back(std::move(layer));
  return static_cast<int32_t>(layers_.size()) - 1;
}

void Program::seal(int32_t input, int32_t output) {
  input_ = input;
  output_ = output;
  layers_ = fuse_sums(std::move(layers_), output, kernels_);
  const size_t arena_bytes = plan_arena(tensors_, layers_, input, output);
  size_t scratch_bytes = 0;
  for (const Layer& layer : layers_) steps_.push_back(make_step(layer, tensors_, kernels_, scratch_bytes));
  for (int i = 0; i < team_.size(); ++i) {
    arenas_.emplace_back(arena_bytes);
    scratch_.emplace_back(scratch_bytes);
    fill_with_zero_points(tensors_, arenas_.back().data());
  }
  const em_tensor &in = tensors_.at(input).type, &out = tensors_.at(output).type;
  image_bytes_ = size_t(in.height) * in.width * in.channels;
  logits_bytes_ = size_t(out.height) * out.width * out.channels * (tensors_.at(output).raw ? 4 : 1);
  layers_ = {};  // the steps hold what they need
}

// Copy an image into the arena, shifting signed integers up by 128: that is flipping their top bit.
void Program::load(const uint8_t* image, uint8_t* arena) const {
  const Tensor& tensor = tensors_[input_];
  const View& view = tensor.view;
  const auto flip = static_cast<uint8_t>(tensor.offset);
  const uint32_t flips = flip * 0x01010101u;
  for (int32_t y = 0; y < view.height; ++y) {
    uint8_t* row = arena + view.at(y, 0);
    if (view.channels == view.pixel) {
      const int32_t bytes = view.width * view.channels;
      for (int32_t i = 0; i < bytes; ++i) row[i] = image[i] ^ flip;
      image += bytes;
    } else if (view.channels == 3 && view.pixel == 4) {
      // Four bytes at a time: the fourth is the next pixel's and meets weights of 0. The last pixel has no next one.
      for (int32_t x = 0; x + 1 < view.width; ++x) {
        uint32_t four;
        std::memcpy(&four, image + 3 * x, 4);
        four ^= flips;
        std::memcpy(row + 4 * x, &four, 4);
      }
      for (int32_t c = 0; c < 3; ++c) row[4 * (view.width - 1) + c] = image[3 * (view.width - 1) + c] ^ flip;
      image += 3 * view.width;
    } else {
      for (int32_t x = 0; x < view.width; ++x, image += view.channels)
        for (int32_t c = 0; c < view.channels; ++c) row[x * view.pixel + c] = image[c] ^ flip;
    }
  }
}

void Program::unload(const uint8_t* arena, uint8_t* logits) const {
  const Tensor& tensor = tensors_[output_];
  const View& view = tensor.view;
  const size_t bytes = size_t(view.channels) * (tensor.raw ? 4 : 1);
  for (int32_t y = 0; y < view.height; ++y) {
    for (int32_t x = 0; x < view.width; ++x, logits += bytes) {
      std::memcpy(logits, arena + view.at(y, x), bytes);
      if (!tensor.raw)
        for (size_t i = 0; i < bytes; ++i) logits[i] ^= static_cast<uint8_t>(tensor.offset);
    }
  }
}

// One image on one thread, in that thread's arena.
void Program::run_whole(const uint8_t* image, uint8_t* logits, int thread) const {
  uint8_t *arena = arenas_[thread].data(), *scratch = scratch_[thread].data();
  load(image, arena);
  for (const Step& step : steps_) step.run(arena, 0, step.rows, scratch);
  unload(arena, logits);
}

// One image on all threads: each takes its share of every step's rows, and all meet after each step.
void Program::run_shared(const uint8_t* image, uint8_t* logits, int thread, int64_t* nanoseconds) {
  uint8_t *arena = arenas_[0].data(), *scratch = scratch_[thread].data();
  const int threads = team_.size();
  if (thread == 0) load(image, arena);
  team_.barrier();
  for (size_t i = 0; i < steps_.size(); ++i) {
    const Clock::time_point begin = nanoseconds ? Clock::now() : Clock::time_point();
    const Step& step = steps_[i];
    const int32_t first = share(step.rows, thread, threads), last = share(step.rows, thread + 1, threads);
    if (first < last) step.run(arena, first, last, scratch);
    team_.barrier();
    if (nanoseconds && thread == 0)
      nanoseconds[i] = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin).count();
  }
  if (thread == 0) unload(arena, logits);
}

struct Program::Job {
  Program* program;
  int32_t images;
  const uint8_t* input;
  uint8_t* output;
  int64_t* nanoseconds;

  static void run(void* context, int thread) {
    const Job& job = *static_cast<Job*>(context);
    Program& program = *job.program;
    if (job.images == 1) return program.run_shared(job.input, job.output, thread, job.nanoseconds);
    const int threads = program.team_.size();
    const int32_t last = share(job.images, thread + 1, threads);
    for (int32_t i = share(job.images, thread, threads); i < last; ++i)
      program.run_whole(job.input + i * program.image_bytes_, job.output + i * program.logits_bytes_, thread);
  }
};

void Program::run(int32_t images, const uint8_t* input, void* output) {
  Job job{this, images, input, static_cast<uint8_t*>(output), nullptr};
  team_.run(Job::run, &job);
}

void Program::profile(const uint8_t* input, void* output, int64_t* nanoseconds) {
  Job job{this, 1, input, static_cast<uint8_t*>(output), nanoseconds};
  team_.run(Job::run, &job);
}

}  // namespace edgemeta
