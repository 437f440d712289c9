"""Proof and comparison of edgemeta's CUDA kernels without a GPU: machine code read, executed, counted and timed."""

__version__ = "0.1.0"
