"""Scenes drawn by rules, no photograph among them: what the synthetic camera shows.

`painting` holds the brush, `backdrops` the places, `vehicles` and `animals` the things, `show` lets them move.
"""
