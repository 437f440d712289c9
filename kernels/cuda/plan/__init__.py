"""Launch plans as plain data, and the interface between the lowering and the kernels."""
