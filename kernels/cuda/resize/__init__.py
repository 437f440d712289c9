"""Bilinear resize."""
