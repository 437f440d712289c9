// Copies: concatenations, and layers that move the elements of one tensor. A thread writes four channels of a pixel
// (README.md).
//
// Part n of a concatenation begins at channel FIRSTn of the output; blocks BLOCKn .. ENDn - 1 copy it. With MOVES there
// is one part: element (row, column, channel) is byte rows[row] + columns[column] + channels[channel] after the first
// one of the source, and FILL where one of the first two is below 0. WORDS: channels is 0, 1, 2, ..., and the other two
// lists are those of words.
#include "include/tensor.cuh"

#define EACH_1(X) X(0)
#define EACH_2(X) EACH_1(X) X(1)
#define EACH_3(X) EACH_2(X) X(2)
#define EACH_4(X) EACH_3(X) X(3)
#define EACH_5(X) EACH_4(X) X(4)
#define EACH_6(X) EACH_5(X) X(5)
#define EACH_7(X) EACH_6(X) X(6)
#define EACH_8(X) EACH_7(X) X(7)
#define EACH_9(X) EACH_8(X) X(8)
#define EACH_10(X) EACH_9(X) X(9)
#define EACH_11(X) EACH_10(X) X(10)
#define EACH_12(X) EACH_11(X) X(11)
#define EACH_13(X) EACH_12(X) X(12)
#define EACH_14(X) EACH_13(X) X(13)
#define EACH_15(X) EACH_14(X) X(14)
#define EACH_16(X) EACH_15(X) X(15)
#define EACH_17(X) EACH_16(X) X(16)
#define EACH_18(X) EACH_17(X) X(17)
#define EACH_19(X) EACH_18(X) X(18)
#define EACH_20(X) EACH_19(X) X(19)
#define EACH_21(X) EACH_20(X) X(20)
#define EACH_22(X) EACH_21(X) X(21)
#define EACH_23(X) EACH_22(X) X(22)
#define EACH_24(X) EACH_23(X) X(23)
#define EACH_25(X) EACH_24(X) X(24)
#define EACH_26(X) EACH_25(X) X(25)
#define EACH_27(X) EACH_26(X) X(26)
#define EACH_28(X) EACH_27(X) X(27)
#define EACH_29(X) EACH_28(X) X(28)
#define EACH_30(X) EACH_29(X) X(29)
#define EACH_31(X) EACH_30(X) X(30)
#define EACH_32(X) EACH_31(X) X(31)
#define JOINED(a, b) a##b
#define EACH_OF(parts, X) JOINED(EACH_, parts)(X)

// channels: of the part; block: the first one that copies it; first: its first channel in the output; aligned: it
// begins at a word, and no other part writes its last one.
#define PART(n)                  \
  TENSOR(Source##n, SOURCE##n);  \
  struct Part##n {               \
    enum {                       \
      channels = PART##n##_C,    \
      block = BLOCK##n,          \
      first = FIRST##n,          \
      aligned = ALIGNED##n       \
    };                           \
  };
TENSOR(Output, OUT);
EACH_OF(PARTS, PART)

#if MOVES
#define LIST_PARAMETERS \
  , const int *__restrict__ rows, const int *__restrict__ columns, const int *__restrict__ channels
#define LISTS , rows, columns, channels
#else
#define LIST_PARAMETERS
#define LISTS
#endif

template <class Source, class Part>
__device__ __forceinline__ void copy(unsigned char* __restrict__ output,
                                     const unsigned char* __restrict__ source LIST_PARAMETERS) {
  enum { FOURS = (Part::channels + 3) / 4 };
  const int item = ((int)blockIdx.x - Part::block) * THREADS + (int)threadIdx.x;
  if (item >= HEIGHT * WIDTH * FOURS) return;
  const int channel = item % FOURS * 4, pixel = item / FOURS, row = pixel / WIDTH, column = pixel % WIDTH;
#if MOVES
  const int y = __ldg(rows + row), x = __ldg(columns + column);
  int word = FILL;
  if (y >= 0 && x >= 0) {
    const unsigned char* from = image_of<Source>(source) + Source::start + y + x;
    word = WORDS ? *reinterpret_cast<const int*>(from + channel) : 0;
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (!WORDS && channel + i < Part::channels) word |= (int)__ldg(from + __ldg(channels + channel + i)) << 8 * i;
  }
#else
  const int word = load_four<Source>(image_of<Source>(source) + offset_of<Source>(row, column, channel), channel);
#endif
  const int values[4] = {word, word >> 8, word >> 16, word >> 24};
  unsigned char* to = image_of<Output>(output) + offset_of<Output>(row, column, channel + Part::first);
  if (Part::aligned) {
    store_four<Output>(to, channel + Part::first, values);
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i)
      if (channel + i < Part::channels) to[i] = (unsigned char)values[i];
  }
}

#define SOURCE_PARAMETER(n) , const unsigned char* __restrict__ source##n
#define COPY(n)                                        \
  if (blockIdx.x < END##n) {                           \
    copy<Source##n, Part##n>(output, source##n LISTS); \
    return;                                            \
  }

extern "C" __global__ void __launch_bounds__(THREADS)
    rearrange(unsigned char* __restrict__ output EACH_OF(PARTS, SOURCE_PARAMETER) LIST_PARAMETERS) {
  EACH_OF(PARTS, COPY)
}
