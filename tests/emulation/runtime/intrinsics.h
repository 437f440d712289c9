// CUDA's integer and float intrinsics as plain C++; each as the CUDA math API or the PTX manual defines it.
#pragma once

template <class T>
static inline T __ldg(const T *address) {
  return *address;
}

static inline int min(int a, int b) { return a < b ? a : b; }
static inline unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
static inline long long min(long long a, long long b) { return a < b ? a : b; }
static inline float min(float a, float b) { return __builtin_fminf(a, b); }
static inline int max(int a, int b) { return a > b ? a : b; }
static inline unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
static inline long long max(long long a, long long b) { return a > b ? a : b; }
static inline float max(float a, float b) { return __builtin_fmaxf(a, b); }
static inline float fminf(float a, float b) { return __builtin_fminf(a, b); }
static inline float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }

static inline int __mulhi(int a, int b) { return int((long long)(a) * b >> 32); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)(a) * b >> 32); }
static inline long long __mul64hi(long long a, long long b) { return (long long)(__int128(a) * b >> 64); }
static inline int __mul24(int a, int b) {
  return int(unsigned(int(unsigned(a) << 8) >> 8) * unsigned(int(unsigned(b) << 8) >> 8));
}

static inline int __popc(unsigned value) {  // GCC's own calls its library, which modules are not linked with
  const unsigned pairs = value - (value >> 1 & 0x55555555u);
  const unsigned nibbles = (pairs & 0x33333333u) + (pairs >> 2 & 0x33333333u);
  return int(((nibbles + (nibbles >> 4)) & 0x0F0F0F0Fu) * 0x01010101u >> 24);
}
static inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(unsigned(value)); }
static inline int __ffs(int value) { return __builtin_ffs(value); }

// Bytes of b:a chosen by four nibbles; a nibble's highest bit copies the sign of the byte instead (PTX prmt).
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned selector) {
  const unsigned long long bytes = (unsigned long long)(b) << 32 | a;
  unsigned result = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned nibble = selector >> (4 * i) & 15;
    const unsigned byte = unsigned(bytes >> (8 * (nibble & 7))) & 0xff;
    result |= (nibble & 8 ? (byte & 0x80 ? 0xffu : 0u) : byte) << (8 * i);
  }
  return result;
}

static inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)(high) << 32 | low) >> (shift & 31));
}
static inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return unsigned(((unsigned long long)(high) << 32 | low) << (shift & 31) >> 32);
}

static inline int __float2int_rn(float value) { return int(__builtin_rintf(value)); }
static inline float __int2float_rn(int value) { return float(value); }
static inline float __fmaf_rn(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline int __float_as_int(float value) {
  int bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  return bits;
}
static inline float __int_as_float(int bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof value);
  return value;
}

// A kernel's threads share one OS thread, so a plain update is atomic.
#define EMULATION_ATOMIC(name, update)                          \
  template <class T>                                            \
  EMULATION_UNCHECKED static T name(T *address, T value) {      \
    emulation::touch_atomically(address, sizeof(T));            \
    const T old = *address;                                     \
    *address = (update);                                        \
    return old;                                                 \
  }
EMULATION_ATOMIC(atomicAdd, old + value)
EMULATION_ATOMIC(atomicSub, old - value)
EMULATION_ATOMIC(atomicMin, old < value ? old : value)
EMULATION_ATOMIC(atomicMax, old > value ? old : value)
EMULATION_ATOMIC(atomicAnd, old &value)
EMULATION_ATOMIC(atomicOr, old | value)
EMULATION_ATOMIC(atomicXor, old ^ value)
EMULATION_ATOMIC(atomicExch, value)
#undef EMULATION_ATOMIC

namespace emulation {

template <class A, class B>
inline int dot4(unsigned a, unsigned b, int c) {  // A, B: signed char or unsigned char; the sum wraps (PTX dp4a)
  unsigned sum = unsigned(c);
  for (int i = 0; i < 32; i += 8) sum += unsigned(int(A(a >> i)) * int(B(b >> i)));
  return int(sum);
}
static inline int dp4a_s8s8(int a, int b, int c) { return dot4<signed char, signed char>(unsigned(a), unsigned(b), c); }
static inline int dp4a_u8s8(unsigned a, int b, int c) { return dot4<unsigned char, signed char>(a, unsigned(b), c); }

}  // namespace emulation
