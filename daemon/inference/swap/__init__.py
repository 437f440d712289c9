"""Replacing a model while frames flow: shadow run, replacement, trial; on failure the previous model stays in use."""
