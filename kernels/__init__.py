"""Kernels: device code and the launchers that load it."""
