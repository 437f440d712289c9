// What the forms of Winograd F(4x4, 3x3) on tiles of four by four outputs have in common: exact, with 16-bit products.
//
// Lavin and Gray's matrices, with G times 24 (its last row times 6, and the last column of A^T times 4):
//   B^T = 4  0 -5  0  1  0     24 G = 6  0  0     A^T = 1  1  1  1  1  0
//         0 -4 -4  1  1  0           -4 -4 -4           0  1 -1  2 -2  0
//         0  4 -4 -1  1  0           -4  4 -4           0  1  1  4  4  0
//         0 -2 -1  2  1  0            1  2  4           0  1 -1  8 -8  4
//         0  2 -1 -2  1  0            1 -2  4
//         0  4  0 -5  0  1            0  0  6
// A weight is at most 12 * 12 * 128 = 18,432 after its transform. An input of -128 .. 127 is at most 10 * 10 * 128 =
// 12,800; one of 0 .. 255 at most (8 * 8 + 2 * 2) * 255 = 17,340, as the signs of a row of B^T sum to 8 and 2 at most
// (or 5 and 5). All fit int16. Sums wrap modulo 2**32. The result is 576 y, and 576 = 64 * 9: its product with the
// inverse of 9 modulo 2**32 is 64 y modulo 2**32, so that a shift gives y where |y| < 2**25, which the planner has
// proved.
#pragma once

#include "../kernels.h"
#include "vector.h"

namespace edgemeta::EM_NAMESPACE {
namespace {

constexpr int kSide = 4, kIn = kSide + 2, kPoints = kIn * kIn;
constexpr int32_t kScale = 576;
constexpr uint32_t kInverseOfNine = 954437177;  // 9 * 954437177 = 2 * 2**32 + 1
static_assert(9u * kInverseOfNine == 1u);
// With VNNI the rows of G are those above without their factors 6, -4, -4, 1, 1 and 6, which the columns of A^T take;
// then its rows are divided by these powers of two. Transformed weights are at most 7 * 7 times the greatest weight.
constexpr int kDivided[kSide] = {0, 1, 2, 2};

}  // namespace
}  // namespace edgemeta::EM_NAMESPACE
