"""From output integers to labels, objects and vectors: pure NumPy, one module per task."""
