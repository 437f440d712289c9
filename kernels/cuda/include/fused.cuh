// Outputs of a fused convolution: its own sums plus the residual, and the sums of the shortcut.
// Included once for every layer of a kernel.
#include "include/pixel.cuh"

REQUANTIZATION(Main, MAIN);
TENSOR(Output, OUT);
#ifdef ADD_OWN
TENSOR(Residual, RESIDUAL);
#endif
#if BESIDE
REQUANTIZATION(Beside, BESIDE);
TENSOR(BesideOutput, BESIDE_OUT);
#endif
