"""Training of a detection network on images with boxes."""
