"""The tests, arranged as the source tree is."""
