"""Downloads of known networks."""
