"""The live page, and the endpoints for health and metrics."""
