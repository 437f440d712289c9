"""Trained networks before quantization: graph, file, forward pass."""
