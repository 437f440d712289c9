// The C interface: converts exceptions to an error text.
#include <cstdio>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <exception>

#include "edgemeta_cpu.h"
#include "isa.h"
#include "program.h"
#include "resizer.h"

#define EM_EXPORT __attribute__((visibility("default")))

struct em_program {
  edgemeta::Program program;
  std::string steps;  // the text that em_steps returns
};

struct em_resizer {
  edgemeta::Resizer resizer;
};

namespace {

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

std::string described(const std::vector<edgemeta::Step>& steps) {
  std::string text;
  for (const edgemeta::Step& step : steps)
    text += step.name + "\t" + std::to_string(step.weight_bytes) + "\t" +
            std::to_string(static_cast<int32_t>(1000 * step.share + 0.5)) + "\t" + step.form + "\n";
  return text;
}

constexpr int64_t kTrimmed = 1 << 18;  // bytes of a plan

}  // namespace

extern "C" {

EM_EXPORT int32_t em_abi_version(void) { return EM_ABI_VERSION; }

EM_EXPORT int32_t em_best_isa(void) { return edgemeta::best_isa(); }

EM_EXPORT em_program* em_open(int32_t isa, int32_t threads, char* error) {
  return guarded<em_program*>(error, nullptr, [&] { return new em_program{{isa, threads}, {}}; });
}

EM_EXPORT void em_close(em_program* program) { delete program; }

EM_EXPORT int32_t em_isa(const em_program* program) { return edgemeta::isa_of(program->program.kernels()); }

EM_EXPORT int32_t em_load(em_program* program, const uint8_t* plan, int64_t length, char* error) {
  return guarded<int32_t>(error, -1, [&] {
    program->program.load(edgemeta::read_plan(plan, static_cast<size_t>(length)));
    program->steps = described(program->program.steps());
#if defined(__GLIBC__)
    // What reading and packing took, some MB of small blocks, goes back to the system; of a small plan it is little.
    if (length >= kTrimmed) malloc_trim(0);
#endif
    return 0;
  });
}

EM_EXPORT int64_t em_bytes(const em_program* program, int32_t output) {
  return static_cast<int64_t>(output < 0 ? program->program.image_bytes() : program->program.output_bytes(output));
}

EM_EXPORT void em_run(em_program* program, int32_t images, const uint8_t* input, void* const* outputs) {
  program->program.run(images, input, outputs);
}

EM_EXPORT const char* em_steps(const em_program* program) { return program->steps.c_str(); }

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

EM_EXPORT em_resizer* em_resizer_open(int32_t isa, const uint8_t* resize, int64_t length, char* error) {
  return guarded<em_resizer*>(error, nullptr, [&] {
    return new em_resizer{{isa, edgemeta::read_resize(resize, static_cast<size_t>(length))}};
  });
}

EM_EXPORT void em_resizer_close(em_resizer* resizer) { delete resizer; }

EM_EXPORT void em_resizer_run(em_resizer* resizer, const uint8_t* frame, int64_t row_bytes, uint8_t* output) {
  resizer->resizer.run(frame, row_bytes, output);
}

}  // extern "C"
