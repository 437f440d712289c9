"""Image data sets: their formats and files."""
