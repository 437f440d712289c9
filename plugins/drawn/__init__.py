"""Scenes that are drawn by functions, without photographs, the same on every machine; the synthetic camera shows them.

`painting` has the drawing functions, `backdrops` the backgrounds, `vehicles` and `animals` the subjects, `show` moves
them.
"""
