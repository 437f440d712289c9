"""Acceptance programs: faults injected into a running service, and the fate of its messages."""
