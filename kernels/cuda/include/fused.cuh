// Outputs of a fused convolution: its own sums plus the residual, and the sums of the shortcut.
#pragma once
#include "include/requantize.cuh"
#include "include/tensor.cuh"

REQUANTIZATION(Main, MAIN);
TENSOR(Output, OUT);
#ifdef ADD_OWN
TENSOR(Residual, RESIDUAL);
#endif
#if BESIDE
REQUANTIZATION(Beside, BESIDE);
TENSOR(BesideOutput, BESIDE_OUT);
#endif
