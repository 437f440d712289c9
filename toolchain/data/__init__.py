"""Image data sets: formats and files."""
