#include "isa.h"

#include <stdexcept>
#include <string>

#include "edgemeta_cpu.h"
#include "features.h"

namespace edgemeta {
namespace {

const char* name_of(int isa) { return isa == EM_AVX512VNNI ? "avx512vnni" : isa == EM_AVX2 ? "avx2" : "portable"; }

}  // namespace

int best_isa() { return has_avx512vnni() ? EM_AVX512VNNI : has_avx2() ? EM_AVX2 : EM_PORTABLE; }

const Kernels& kernels_for(int isa) {
  const int best = best_isa(), wanted = isa == EM_AUTO ? best : isa;
  if (wanted < EM_PORTABLE || wanted > EM_AVX512VNNI) throw std::runtime_error("unknown instruction set");
  if (wanted > best)
    throw std::runtime_error(std::string("this machine has no ") + name_of(wanted) + ", its best is " + name_of(best));
#if defined(__x86_64__)
  if (wanted == EM_AVX512VNNI) return avx512::kernels;
  if (wanted == EM_AVX2) return avx2::kernels;
#endif
  return portable::kernels;
}

int isa_of([[maybe_unused]] const Kernels& kernels) {
#if defined(__x86_64__)
  if (&kernels == &avx512::kernels) return EM_AVX512VNNI;
  if (&kernels == &avx2::kernels) return EM_AVX2;
#endif
  return EM_PORTABLE;
}

}  // namespace edgemeta
