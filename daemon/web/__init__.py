"""The live page, and health and metrics beside it."""
