"""The workshop: data, training, float models, quantization."""
