"""Number formats with their grids of representable values, and the ways to round to them."""
