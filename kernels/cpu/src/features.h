// What this processor supports.
#pragma once

#if defined(__aarch64__) || defined(__arm__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

namespace edgemeta {

#if defined(__x86_64__)
inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

inline bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

inline bool has_avx512vnni() { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }

// CPUID leaf 7, subleaf 1, EAX bit 4; not all compilers know the name.
inline bool has_avxvnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return has_avx2() && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) && (eax >> 4 & 1);
}
#endif

// Bits of the kernel's auxiliary vector, as in its asm/hwcap.h; older headers lack the newer ones.
#if defined(__aarch64__)
inline bool has_neon() { return true; }
inline bool has_dotprod() { return getauxval(AT_HWCAP) >> 20 & 1; }
inline bool has_i8mm() { return has_dotprod() && (getauxval(AT_HWCAP2) >> 13 & 1); }
#elif defined(__arm__)
inline bool has_neon() { return getauxval(AT_HWCAP) >> 12 & 1; }
#endif

}  // namespace edgemeta
