"""Our networks for other programs: an integer model becomes a QDQ ONNX file."""
