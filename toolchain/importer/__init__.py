"""Other people's networks: an ONNX or TFLite file becomes a float model, or an integer one where it holds integers."""
