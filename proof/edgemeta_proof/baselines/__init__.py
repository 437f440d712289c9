"""Baselines for comparison with our kernels: the design of the paper, and float32."""
