"""Winograd convolutions 3x3: F(2x2) and F(4x4) at stride 1, F(2x2) at stride 2, in one kernel."""
