// The residual addition of a layer. Included once for every layer of a kernel.
#include "include/requantize.cuh"

#undef RESIDUAL_PARAMETER
#undef RESIDUAL_ARGUMENT
#undef RESIDUAL_POINTER
#ifdef ADD_OWN
// A kernel's parameter for the residual, and the arguments that pass it on.
#define RESIDUAL_PARAMETER , const unsigned char* __restrict__ residual
#define RESIDUAL_ARGUMENT , residual
#define RESIDUAL_POINTER residual

// clamp(zero + round(own * m + other * n + bias)) of the int16 in the low halves of own and other. Sums and products
// are exact modulo 2**32. Multipliers have up to 21 bits: 15 of them and the 6 above are multiplied on their own.
__device__ __forceinline__ int add_residual(int own, int other) {
  int sum = multiply_add_low(own, ADD_OWN & 0x7FFF, multiply_add_low(other, ADD_OTHER & 0x7FFF, ADD_BIAS));
  if (ADD_OWN > 0x7FFF || ADD_OTHER > 0x7FFF) {
    const int high = multiply_add_low(own, ADD_OWN >> 15, multiply_add_low(other, ADD_OTHER >> 15, 0));
    sum = (int)((unsigned)sum + ((unsigned)high << 15));
  }
  return clamp((sum >> ADD_SHIFT) + ADD_ZERO, ADD_LO, ADD_HI);
}
#else
#define RESIDUAL_PARAMETER
#define RESIDUAL_ARGUMENT
#define RESIDUAL_POINTER nullptr
#endif
