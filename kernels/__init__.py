"""Device code beside the launcher that loads it."""
