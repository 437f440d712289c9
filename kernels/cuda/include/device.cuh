// Shared by all kernels: vectors in memory, bytes to 16-bit pairs, and multiply-adds, for nvcc, NVRTC and the CPU
// emulation. Includes no other headers.
//
// A word holds DEPTH input channels of one pixel: two int16 (any architecture) or four bytes (dp4a).
#pragma once

#ifndef EDGEMETA_EMULATION
#define DYNAMIC_SHARED(type, name) extern __shared__ type name[]
#endif

// A block of a layer: x and y in Launch.grid, z the image. In a kernel of one layer they are
// blockIdx; a kernel of the whole network (one_launch/source.py, which defines NETWORK_THREADS) computes several of
// them one after the other, of layers that may use fewer threads than it has.
struct Block {
  unsigned x, y, z;
};

#ifndef NETWORK_THREADS
__device__ __forceinline__ Block current_block() {
  const Block block = {blockIdx.x, blockIdx.y, blockIdx.z};
  return block;
}
#endif

// Threads of the block, for a layer that uses USED of them, and whether the calling thread is one of those.
template <int USED>
__device__ constexpr int block_threads() {
#ifdef NETWORK_THREADS
  return NETWORK_THREADS;
#else
  return USED;
#endif
}
template <int USED>
__device__ __forceinline__ bool takes_part() {
  return block_threads<USED>() == USED || (int)threadIdx.x < USED;
}

// A value of an activation tensor. __ldg is for memory that nobody writes while the kernel runs.
template <class T>
__device__ __forceinline__ T load_activation(const T* __restrict__ from) {
#ifdef NETWORK_THREADS
  return *from;
#else
  return __ldg(from);
#endif
}

// n / D for n * D <= 65536: one 16-bit multiplication. The excess of ceil(65536 / D) * D over 65536 is below D, so the
// product is too great by less than n * D / 65536 / D < 1 / D.
template <int D, int LIMIT>
__device__ __forceinline__ int quotient(int n) {
  if ((D & (D - 1)) != 0 && LIMIT <= 65536 / D)
    return (int)(((unsigned)(unsigned short)n * (unsigned)((65536 + D - 1) / D)) >> 16);
  return (int)((unsigned)n / (unsigned)D);
}

template <int D, int LIMIT>
__device__ __forceinline__ int remainder(int n) {
  return (D & (D - 1)) != 0 ? n - quotient<D, LIMIT>(n) * D : n & (D - 1);
}

// Bytes x[a], x[b] as a pair of 16-bit values, a in the low half; selector = prmt's: for sign extension 0x9180 (bytes 0
// and 1) and 0xB3A2 (bytes 2 and 3), for zero extension 0x4140 and 0x4342.
__device__ __forceinline__ int permute(int x, int selector) {
#ifdef EDGEMETA_EMULATION
  return (int)__byte_perm((unsigned)x, 0, (unsigned)selector);
#else
  int result;
  asm("prmt.b32 %0, %1, 0, %2;" : "=r"(result) : "r"(x), "r"(selector));
  return result;
#endif
}

// The low bytes of four values, the first one lowest.
__device__ __forceinline__ int pack_bytes(int a, int b, int c, int d) {
  return __byte_perm(__byte_perm(a, b, 0x0040), __byte_perm(c, d, 0x0040), 0x5410);
}

// sum + a.low * b.low and sum + a.high * b.high of 16-bit pairs; one XMAD each on sm_53 and sm_62, which picks the half
// of a register without extra instructions (in C++ each half costs a shift). Sums wrap.
__device__ __forceinline__ int multiply_add_low(int a, int b, int sum) {
#ifdef EDGEMETA_EMULATION
  return (int)((unsigned)((int)(short)a * (int)(short)b) + (unsigned)sum);
#else
  int result;
  asm("{ .reg .s16 al, ah, bl, bh; mov.b32 {al, ah}, %1; mov.b32 {bl, bh}, %2; mad.wide.s16 %0, al, bl, %3; }"
      : "=r"(result)
      : "r"(a), "r"(b), "r"(sum));
  return result;
#endif
}
__device__ __forceinline__ int multiply_add_high(int a, int b, int sum) {
#ifdef EDGEMETA_EMULATION
  return (int)((unsigned)((a >> 16) * (b >> 16)) + (unsigned)sum);
#else
  int result;
  asm("{ .reg .s16 al, ah, bl, bh; mov.b32 {al, ah}, %1; mov.b32 {bl, bh}, %2; mad.wide.s16 %0, ah, bh, %3; }"
      : "=r"(result)
      : "r"(a), "r"(b), "r"(sum));
  return result;
#endif
}

// sum + four products of bytes, x unsigned or signed, w signed.
template <bool SIGNED>
__device__ __forceinline__ int dot4(int x, int w, int sum) {
#ifdef EDGEMETA_EMULATION
  return SIGNED ? emulation::dp4a_s8s8(x, w, sum) : emulation::dp4a_u8s8((unsigned)x, w, sum);
#elif __CUDA_ARCH__ == 610 || __CUDA_ARCH__ >= 700
  int result;
  if (SIGNED)
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(w), "r"(sum));
  else
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(result) : "r"(x), "r"(w), "r"(sum));
  return result;
#else
  return sum;  // never called: Architecture.dot4 is false
#endif
}

// Bits that are set in two or three words, and in one or three of them: one instruction each. (The compiler makes three
// or four of C++.)
__device__ __forceinline__ unsigned set_twice(unsigned a, unsigned b, unsigned c) {
#ifdef EDGEMETA_EMULATION
  return (a & b) | (c & (a | b));
#else
  unsigned result;
  asm("lop3.b32 %0, %1, %2, %3, 0xE8;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
#endif
}
__device__ __forceinline__ unsigned set_oddly(unsigned a, unsigned b, unsigned c) {
#ifdef EDGEMETA_EMULATION
  return a ^ b ^ c;
#else
  unsigned result;
  asm("lop3.b32 %0, %1, %2, %3, 0x96;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
#endif
}

// a * b + c and a + b, rounded down.
__device__ __forceinline__ float fma_down(float a, float b, float c) {
#ifdef EDGEMETA_EMULATION
  // The product is exact in double; the error of the sum (Knuth's two-sum) shows whether it was rounded up.
  const double product = (double)a * b, sum = product + c, part = sum - product;
  const double error = (product - (sum - part)) + (c - part);
  const float rounded = (float)sum;
  return rounded > sum || (rounded == sum && error < 0) ? __builtin_nextafterf(rounded, -__builtin_inff()) : rounded;
#else
  return __fmaf_rd(a, b, c);
#endif
}
__device__ __forceinline__ float add_down(float a, float b) { return fma_down(a, 1.0f, b); }

// COUNT words from or to memory, in the widest loads that COUNT and the address allow: 16, 8 or 4 bytes.
template <int COUNT>
__device__ __forceinline__ void load_words(int* words, const int* from) {
  if (COUNT % 4 == 0) {
#pragma unroll
    for (int i = 0; i < COUNT / 4; ++i) {
      const int4 four = reinterpret_cast<const int4*>(from)[i];
      words[4 * i] = four.x, words[4 * i + 1] = four.y, words[4 * i + 2] = four.z, words[4 * i + 3] = four.w;
    }
  } else if (COUNT % 2 == 0) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) {
      const int2 two = reinterpret_cast<const int2*>(from)[i];
      words[2 * i] = two.x, words[2 * i + 1] = two.y;
    }
  } else {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) words[i] = from[i];
  }
}
template <int COUNT>
__device__ __forceinline__ void store_words(int* to, const int* words) {
  if (COUNT % 4 == 0) {
#pragma unroll
    for (int i = 0; i < COUNT / 4; ++i)
      reinterpret_cast<int4*>(to)[i] = make_int4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
  } else if (COUNT % 2 == 0) {
#pragma unroll
    for (int i = 0; i < COUNT / 2; ++i) reinterpret_cast<int2*>(to)[i] = make_int2(words[2 * i], words[2 * i + 1]);
  } else {
#pragma unroll
    for (int i = 0; i < COUNT; ++i) to[i] = words[i];
  }
}
