"""Runs generated networks clock by clock: a Verilator library behind ctypes."""
