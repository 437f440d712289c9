// CUDA's vector types with their sizes and alignments (CUDA C++ programming guide, built-in vector types).
#pragma once

#define EMULATION_VECTOR2(name, type, alignment)                \
  struct alignas(alignment) name##2 {                           \
    type x, y;                                                  \
  };                                                            \
  static inline name##2 make_##name##2(type x, type y) { return {x, y}; }
#define EMULATION_VECTOR3(name, type)                           \
  struct name##3 {                                              \
    type x, y, z;                                               \
  };                                                            \
  static inline name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }
#define EMULATION_VECTOR4(name, type, alignment)                \
  struct alignas(alignment) name##4 {                           \
    type x, y, z, w;                                            \
  };                                                            \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
#define EMULATION_VECTORS(name, type, bytes)                    \
  EMULATION_VECTOR2(name, type, 2 * bytes)                      \
  EMULATION_VECTOR3(name, type)                                 \
  EMULATION_VECTOR4(name, type, 4 * bytes)

EMULATION_VECTORS(char, signed char, 1)
EMULATION_VECTORS(uchar, unsigned char, 1)
EMULATION_VECTORS(short, short, 2)
EMULATION_VECTORS(ushort, unsigned short, 2)
EMULATION_VECTORS(int, int, 4)
EMULATION_VECTORS(uint, unsigned, 4)
EMULATION_VECTORS(float, float, 4)
EMULATION_VECTOR2(longlong, long long, 16)
EMULATION_VECTOR2(ulonglong, unsigned long long, 16)
EMULATION_VECTOR2(double, double, 16)

#undef EMULATION_VECTORS
#undef EMULATION_VECTOR4
#undef EMULATION_VECTOR3
#undef EMULATION_VECTOR2
