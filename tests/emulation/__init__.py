"""Runs the CUDA sources on the CPU: kernels are proved where there is no GPU. Test equipment (docs/emulation.md)."""
