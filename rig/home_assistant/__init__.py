"""A real Home Assistant core in a process of its own, with an integration that says what it has, and does as told."""
