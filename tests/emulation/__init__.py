"""Runs the CUDA sources on the CPU, so that kernels are proved without a GPU (docs/kernels-proved.md)."""
