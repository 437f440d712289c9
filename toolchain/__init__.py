"""The toolchain: data sets, training, float models, quantization."""
