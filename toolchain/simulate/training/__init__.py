"""Trains networks under number formats from a file, on one worker or many."""
