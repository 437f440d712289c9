// What a fused convolution puts out: its own sums with the residual that it adds, and those of the shortcut beside it.
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
