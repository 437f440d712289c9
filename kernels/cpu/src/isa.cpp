#include "isa.h"

#include <stdexcept>
#include <string>

#include "edgemeta_cpu.h"
#include "features.h"

namespace edgemeta {
namespace {

// An instruction set that this build has kernels for; the slowest first. The 256-bit vpdpbusd has two encodings:
// AVX-VNNI's and that of AVX-512, so that the set can be forced, tested and timed on machines with either.
struct Isa {
  int number;
  const Kernels* kernels;
  bool (*is_supported)();
};

const Isa kIsas[] = {
    {EM_PORTABLE, &portable::kernels, [] { return true; }},
#if defined(__x86_64__)
    {EM_AVX2, &avx2::kernels, has_avx2},
    {EM_AVXVNNI, &avxvnni_evex::kernels, has_avx512vnni},
    {EM_AVXVNNI, &avxvnni::kernels, has_avxvnni},
    {EM_AVX512VNNI, &avx512::kernels, has_avx512vnni},
#elif defined(__aarch64__)
    {EM_NEON, &neon::kernels, has_neon},
    {EM_DOTPROD, &dotprod::kernels, has_dotprod},
    {EM_I8MM, &i8mm::kernels, has_i8mm},
#elif defined(__arm__)
    {EM_NEON, &neon::kernels, has_neon},
#endif
};

const char* const kNames[] = {"auto", "portable", "avx2", "avxvnni", "avx512vnni", "neon", "dotprod", "i8mm"};

}  // namespace

int best_isa() {
  int best = EM_PORTABLE;
  for (const Isa& each : kIsas)
    if (each.is_supported()) best = each.number;
  return best;
}

const Kernels& kernels_for(int isa) {
  if (isa < EM_AUTO || isa > EM_I8MM) throw std::runtime_error("unknown instruction set");
  const int best = best_isa(), wanted = isa == EM_AUTO ? best : isa;
  for (const Isa& each : kIsas)
    if (each.number == wanted && each.is_supported()) return *each.kernels;
  throw std::runtime_error(std::string("this machine has no ") + kNames[wanted] + ", its best is " + kNames[best]);
}

int isa_of(const Kernels& kernels) {
  for (const Isa& each : kIsas)
    if (each.kernels == &kernels) return each.number;
  return EM_PORTABLE;
}

}  // namespace edgemeta
