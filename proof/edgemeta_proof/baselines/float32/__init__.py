"""Baseline: the network in float32, with the same launches as the integer network."""
