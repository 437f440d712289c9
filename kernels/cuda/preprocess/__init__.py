"""Preprocessing of camera frames: crop, area resize, colour, fill and table."""
