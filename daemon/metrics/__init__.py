"""Counters and latencies as Prometheus reads them."""
