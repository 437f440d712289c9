"""Acceptance programs: faults injected into a running service, and what became of its messages."""
