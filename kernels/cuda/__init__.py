"""CUDA kernels, one folder each, and the lowering of a model to a launch plan. Needs neither a GPU nor PyCUDA."""
