"""Addition, clamp and rescale that no convolution took in."""
