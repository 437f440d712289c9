"""Training of the shipped backbone: a residual network that learns the maps of a larger network of others."""
