"""The NumPy reference as a backend: slow, exact, available everywhere."""
