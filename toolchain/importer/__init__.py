"""Other people's networks: an ONNX file becomes a float model."""
