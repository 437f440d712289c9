"""Additions, clamps and rescales that are not fused."""
