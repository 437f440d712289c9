"""Executes machine code on data, for every thread, without a GPU."""
