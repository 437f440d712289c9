"""CUDA kernels, one folder each, and the lowering of a model to a plan of launches. Needs neither GPU nor PyCUDA."""
