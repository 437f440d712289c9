"""Scenes of the synthetic camera, drawn by functions without photographs.

`painting` has the drawing functions, `backdrops` the backgrounds, `vehicles` and `animals` the subjects, `show` moves
them.
"""
