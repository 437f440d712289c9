"""Counters, latencies, health, and the metrics for Prometheus."""
