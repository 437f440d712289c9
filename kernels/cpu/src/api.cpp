// The C interface: converts exceptions to an error text.
#include <cstdio>
#include <exception>

#include "edgemeta_cpu.h"
#include "isa.h"
#include "program.h"
#include "resizer.h"

#define EM_EXPORT __attribute__((visibility("default")))

struct em_program {
  edgemeta::Program program;
};

struct em_resizer {
  edgemeta::Resizer resizer;
};

namespace {

using edgemeta::Kind;
using edgemeta::Layer;

// Call f(); on an exception write its text and return `failed`.
template <typename Result, typename F>
Result guarded(char* error, Result failed, F f) {
  try {
    return f();
  } catch (const std::exception& exception) {
    std::snprintf(error, EM_ERROR_BYTES, "%s", exception.what());
  } catch (...) {
    std::snprintf(error, EM_ERROR_BYTES, "unknown failure");
  }
  return failed;
}

Layer layer_of(Kind kind, const char* name, std::vector<int32_t> inputs, int32_t output) {
  Layer layer;
  layer.kind = kind;
  layer.name = name;
  layer.inputs = std::move(inputs);
  layer.output = output;
  return layer;
}

edgemeta::NeighbourLists neighbour_lists(const em_neighbours& given, int32_t size) {
  const auto copied = [size](const int32_t* from) { return std::vector<int32_t>(from, from + size); };
  return {copied(given.lower), copied(given.upper), copied(given.weight)};
}

int32_t add(em_program* program, Layer layer) { return program->program.add_layer(std::move(layer)); }

}  // namespace

extern "C" {

EM_EXPORT int32_t em_abi_version(void) { return EM_ABI_VERSION; }

EM_EXPORT int32_t em_best_isa(void) { return edgemeta::best_isa(); }

EM_EXPORT em_program* em_open(int32_t isa, int32_t threads, char* error) {
  return guarded<em_program*>(error, nullptr, [&] { return new em_program{{isa, threads}}; });
}

EM_EXPORT void em_close(em_program* program) { delete program; }

EM_EXPORT int32_t em_isa(const em_program* program) { return edgemeta::isa_of(program->program.kernels()); }

EM_EXPORT void em_prefer(em_program* program, int32_t form) { program->program.prefer(form); }

EM_EXPORT int32_t em_add_tensor(em_program* program, const em_tensor* tensor, char* error) {
  return guarded<int32_t>(error, -1, [&] { return program->program.add_tensor(*tensor); });
}

EM_EXPORT int32_t em_add_conv(em_program* program, const char* name, int32_t input, int32_t output,
                              const em_window* window, int32_t outputs, int32_t depth, int32_t groups,
                              const int32_t* weights, const int32_t* bias, const em_requantize* requantize,
                              char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::conv, name, {input}, output);
    layer.window = *window;
    layer.groups = groups;
    layer.weights.assign(weights, weights + size_t(outputs) * window->kernel_height * window->kernel_width * depth);
    layer.bias.assign(bias, bias + outputs);
    layer.requantize = {*requantize, outputs};
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_set_bases(em_program* program, int32_t layer, int32_t count, const int8_t* basis,
                               const int16_t* factors, char* error) {
  return guarded<int32_t>(error, -1, [&] {
    program->program.set_bases(layer, count, basis, factors);
    return 0;
  });
}

EM_EXPORT int32_t em_add_sum(em_program* program, const char* name, int32_t a, int32_t b, int32_t output,
                             int32_t multiplier_a, int32_t multiplier_b, int32_t shift, int32_t lo, int32_t hi,
                             char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::sum, name, {a, b}, output);
    layer.multiplier_a = multiplier_a;
    layer.multiplier_b = multiplier_b;
    layer.shift = shift;
    layer.lo = lo;
    layer.hi = hi;
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_add_clamp(em_program* program, const char* name, int32_t input, int32_t output, int32_t lo,
                               int32_t hi, char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::clamp, name, {input}, output);
    layer.lo = lo;
    layer.hi = hi;
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_add_rescale(em_program* program, const char* name, int32_t input, int32_t output, int32_t channels,
                                 const em_requantize* requantize, char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::rescale, name, {input}, output);
    layer.requantize = {*requantize, channels};
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_add_max_pool(em_program* program, const char* name, int32_t input, int32_t output,
                                  const em_window* window, char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::max_pool, name, {input}, output);
    layer.window = *window;
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_add_average_pool(em_program* program, const char* name, int32_t input, int32_t output,
                                      const em_window* window, int32_t channels, const em_requantize* requantize,
                                      char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::average_pool, name, {input}, output);
    layer.window = *window;
    layer.requantize = {*requantize, channels};
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_add_concat(em_program* program, const char* name, const int32_t* inputs, int32_t count,
                                int32_t output, char* error) {
  return guarded<int32_t>(error, -1,
                          [&] { return add(program, layer_of(Kind::concat, name, {inputs, inputs + count}, output)); });
}

EM_EXPORT int32_t em_add_upsample(em_program* program, const char* name, int32_t input, int32_t output,
                                  int32_t factor_y, int32_t factor_x, char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::upsample, name, {input}, output);
    layer.factor_y = factor_y;
    layer.factor_x = factor_x;
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_add_lookup(em_program* program, const char* name, int32_t input, int32_t output, int32_t tables,
                                const int16_t* table, char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::lookup, name, {input}, output);
    layer.table.assign(table, table + size_t(tables) * 256);
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_add_product(em_program* program, const char* name, int32_t a, int32_t b, int32_t output,
                                 int32_t channels, const em_requantize* requantize, char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::product, name, {a, b}, output);
    layer.requantize = {*requantize, channels};
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_add_pad(em_program* program, const char* name, int32_t input, int32_t output, int32_t top,
                             int32_t left, int32_t spacing_y, int32_t spacing_x, char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::pad, name, {input}, output);
    layer.top = top;
    layer.left = left;
    layer.factor_y = spacing_y;
    layer.factor_x = spacing_x;
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_add_slice(em_program* program, const char* name, int32_t input, int32_t output, int32_t top,
                               int32_t left, int32_t channel, int32_t step_y, int32_t step_x, int32_t step_channel,
                               char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::slice, name, {input}, output);
    layer.top = top;
    layer.left = left;
    layer.channel = channel;
    layer.factor_y = step_y;
    layer.factor_x = step_x;
    layer.step_channel = step_channel;
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_add_channel_shuffle(em_program* program, const char* name, int32_t input, int32_t output,
                                         int32_t groups, char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::shuffle, name, {input}, output);
    layer.groups = groups;
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_add_resize_bilinear(em_program* program, const char* name, int32_t input, int32_t output,
                                         const em_neighbours* rows, const em_neighbours* columns, char* error) {
  return guarded<int32_t>(error, -1, [&] {
    Layer layer = layer_of(Kind::bilinear, name, {input}, output);
    const em_tensor& type = program->program.tensor(output);
    layer.rows = neighbour_lists(*rows, type.height);
    layer.columns = neighbour_lists(*columns, type.width);
    return add(program, std::move(layer));
  });
}

EM_EXPORT int32_t em_seal(em_program* program, int32_t input, const int32_t* outputs, int32_t count,
                          char* error) {
  return guarded<int32_t>(error, -1, [&] {
    program->program.seal(input, {outputs, outputs + count});
    return 0;
  });
}

EM_EXPORT void em_run(em_program* program, int32_t images, const uint8_t* input, void* const* outputs) {
  program->program.run(images, input, outputs);
}

EM_EXPORT int32_t em_steps(const em_program* program) { return static_cast<int32_t>(program->program.steps().size()); }

EM_EXPORT const char* em_step_name(const em_program* program, int32_t step) {
  return program->program.steps()[step].name.c_str();
}

EM_EXPORT const char* em_step_form(const em_program* program, int32_t step) {
  return program->program.steps()[step].form.c_str();
}

EM_EXPORT int64_t em_step_weight_bytes(const em_program* program, int32_t step) {
  return program->program.steps()[step].weight_bytes;
}

EM_EXPORT int32_t em_step_predicted(const em_program* program, int32_t step) {
  return static_cast<int32_t>(1000 * program->program.steps()[step].share + 0.5);
}

EM_EXPORT void em_profile(em_program* program, const uint8_t* input, void* const* outputs, int64_t* nanoseconds) {
  program->program.profile(input, outputs, nanoseconds);
}

EM_EXPORT void em_quantize(int32_t isa, const float* x, int64_t count, int32_t bits, uint8_t* out, float* range) {
  edgemeta::kernels_for(isa).low_bit->quantize(x, count, bits, out, range);
}

EM_EXPORT void em_dequantize(int32_t isa, const int32_t* sums, int64_t rows, int32_t columns, const float* scale,
                             const float* offset, float* out) {
  edgemeta::kernels_for(isa).low_bit->dequantize(sums, rows, columns, scale, offset, out);
}

EM_EXPORT em_resizer* em_resizer_open(int32_t isa, const em_resize* resize, char* error) {
  return guarded<em_resizer*>(error, nullptr, [&] { return new em_resizer{{isa, *resize}}; });
}

EM_EXPORT void em_resizer_close(em_resizer* resizer) { delete resizer; }

EM_EXPORT void em_resizer_run(em_resizer* resizer, const uint8_t* frame, int64_t row_bytes, uint8_t* output) {
  resizer->resizer.run(frame, row_bytes, output);
}

}  // extern "C"
