"""Trained networks before they are quantized: graph, file, forward pass."""
