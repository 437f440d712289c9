// What this processor supports.
#pragma once

namespace edgemeta {

#if defined(__x86_64__)
inline bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }

inline bool has_avx512() {
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

inline bool has_avx512vnni() { return has_avx512() && __builtin_cpu_supports("avx512vnni"); }
#else
inline bool has_avx2() { return false; }
inline bool has_avx512() { return false; }
inline bool has_avx512vnni() { return false; }
#endif

}  // namespace edgemeta
