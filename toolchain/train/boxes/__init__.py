"""Training of a detector without anchors on anybody's pictures with boxes."""
