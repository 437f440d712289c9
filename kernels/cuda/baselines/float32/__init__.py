"""The network that is not quantized, float32, with the launches of the integer one."""
