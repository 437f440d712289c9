// Winograd's form of a convolution (isa/winograd*.cpp): whether it applies and pays, and its weights.
#pragma once

#include "program.h"

namespace edgemeta {

// Whether the kernels have the form and it gives equal integers for this layer.
bool fits_winograd(const Layer& layer, const Conv& conv, const Kernels& kernels);

// Its time as a share of the plain form's, by instructions or cycles counted.
double winograd_share(const Conv& conv, const Kernels& kernels);

// G g G' as int16, for tiles of two [blocks][16 positions][input channels / 2][16][2], for tiles of four on ARM
// [blocks][36 positions][input channels][16], on AVX-VNNI [blocks][6 columns][input channels / 2][6 rows][16][2]; on
// AVX-512, which transforms them, g itself, [blocks][input channels / 2][3][3][16][2]. Sets conv's sizes of weights.
Buffer pack_winograd(const Layer& layer, Conv& conv, const Kernels& kernels);

}  // namespace edgemeta
