"""Winograd convolutions, 3x3 with stride 1: F(2x2) and F(4x4), one kernel."""
