"""What a device has to do for a model, as plain data, and what kernels offer to it."""
