"""NVIDIA GPUs through PyCUDA: the integer kernels of `kernels.cuda` as a backend."""
